/* httpscript: single-threaded epoll HTTP/1.1 server that answers each request by a script (127.0.0.1 only).
 * build: gcc -O2 -o httpscript httpscript.c          (Linux)
 * usage: httpscript PORT [PATH TEXT FILE]...
 * A request is answered with the bytes of the first FILE, a whole response with its head, whose PATH is in the request's
 * target and whose TEXT is in its body (an empty one is in every body); with 404 where there is none. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

typedef struct {
  const char *path, *text;
  char *answer;
  size_t n;
} rule;
typedef struct {
  int fd;
  char *in, *out;
  size_t inn, cap, outn, off;
} conn;
static rule *rules;
static int nrules, ep;
static const char absent[] = "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n";

static void load_answer(rule *r, const char *name) {
  FILE *file = fopen(name, "r");
  if (!file) {
    perror(name);
    exit(2);
  }
  fseek(file, 0, SEEK_END);
  long size = ftell(file);
  rewind(file);
  r->answer = malloc(size);
  r->n = fread(r->answer, 1, size, file);
  fclose(file);
}
static void watch(conn *c, unsigned events) {
  struct epoll_event e = {.events = events, .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e);
}
static int flush(conn *c) {
  while (c->off < c->outn) {
    ssize_t n = send(c->fd, c->out + c->off, c->outn - c->off, MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) {
      watch(c, EPOLLIN | EPOLLOUT);
      return 1;
    }
    if (n < 0) return 0;
    c->off += n;
  }
  c->outn = c->off = 0;
  return 1;
}
static void say(conn *c, const char *answer, size_t n) {
  c->out = realloc(c->out, c->outn + n);
  memcpy(c->out + c->outn, answer, n);
  c->outn += n;
}
/* Bytes of the body that begins at `p`, its framing with it; -1 while it is not all there. */
static ssize_t body_size(const char *head, const char *p, const char *end) {
  for (const char *line = head; line < p; line = (const char *)memchr(line, '\n', p - line) + 1) {
    if (!strncasecmp(line, "content-length:", 15)) {
      ssize_t n = atol(line + 15);
      return end - p >= n ? n : -1;
    }
    if (!strncasecmp(line, "transfer-encoding:", 18)) {
      const char *last = memmem(p, end - p, "0\r\n\r\n", 5);
      return last ? last + 5 - p : -1;
    }
  }
  return 0;
}
static int answered(conn *c) {
  char *end = c->in + c->inn, *head = memmem(c->in, c->inn, "\r\n\r\n", 4);
  if (!head) return 0;
  char *body = head + 4;
  ssize_t n = body_size(c->in, body, end);
  if (n < 0) return 0;
  size_t target = (char *)memchr(c->in, '\n', c->inn) - c->in;
  rule *found = NULL;
  for (int i = 0; i < nrules && !found; i++)
    if (memmem(c->in, target, rules[i].path, strlen(rules[i].path)) &&
        memmem(body, n, rules[i].text, strlen(rules[i].text)))
      found = rules + i;
  if (found)
    say(c, found->answer, found->n);
  else
    say(c, absent, sizeof absent - 1);
  c->inn = end - (body + n);
  memmove(c->in, body + n, c->inn);
  return 1;
}
static int readable(conn *c) {
  if (c->cap - c->inn < 65536) c->in = realloc(c->in, c->cap = c->cap * 2 + 131072);
  ssize_t n = recv(c->fd, c->in + c->inn, c->cap - c->inn, 0);
  if (n < 0 && errno == EAGAIN) return 1;
  if (n <= 0) return 0;
  c->inn += n;
  while (answered(c));
  return flush(c);
}
static void end(conn *c) {
  close(c->fd);
  free(c->in);
  free(c->out);
  free(c);
}
int main(int ac, char **av) {
  signal(SIGPIPE, SIG_IGN);
  if (ac < 2 || (ac - 2) % 3) return 2;
  nrules = (ac - 2) / 3;
  rules = calloc(nrules + 1, sizeof *rules);
  for (int i = 0; i < nrules; i++) {
    rules[i].path = av[2 + 3 * i];
    rules[i].text = av[3 + 3 * i];
    load_answer(rules + i, av[4 + 3 * i]);
  }
  int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(av[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(listener, (void *)&a, sizeof a) || listen(listener, 2048)) {
    perror("listen");
    return 2;
  }
  ep = epoll_create1(0);
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = NULL}, events[256];
  epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e);
  for (;;) {
    int n = epoll_wait(ep, events, 256, -1);
    for (int i = 0; i < n; i++) {
      conn *c = events[i].data.ptr;
      if (!c) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
        if (fd < 0) continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        c = calloc(1, sizeof *c);
        c->fd = fd;
        e.data.ptr = c;
        epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e);
        continue;
      }
      if (events[i].events & EPOLLOUT) {
        watch(c, EPOLLIN);
        if (!flush(c)) {
          end(c);
          continue;
        }
      }
      if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !readable(c)) end(c);
    }
  }
}
