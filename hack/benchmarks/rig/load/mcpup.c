/* mcpup: very small, single-threaded epoll MCP streamable-HTTP echo upstream for benchmarks (127.0.0.1 only).
 * Speaks 2025-03-26..2025-11-25 (initialize + Mcp-Session-Id) and 2026-07-28 (stateless envelope, server/discover).
 * build: gcc -O2 -o mcpup mcpup.c          (Linux)
 * usage: mcpup PORT [-t NTOOLS] [-s] (answer tools/call as SSE) [-d DELAY_US] [-p PAD_BYTES]
 *             [-y MICROSECONDS] (look for requests that long before it sleeps) */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  char *p;
  size_t n;
} sl;
typedef struct conn {
  int fd;
  char *in;
  size_t inlen, incap;
  char *out;
  size_t outlen, outoff, outcap;
  struct conn *next;
  uint64_t due;
  int waiting, dead;
} conn;
static int sse, ntools = 10, pad;
static uint64_t delay_us, awake_us;
static char *toolsj;
static size_t toolsn;
static char *padding;
static int ep, tfd;
static conn *qh, *qt;
static unsigned long sess, ncalls, ninit, nlist, nconn, nother;
static uint64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000ull + t.tv_nsec / 1000;
}
static void on_sig(int s) {
  (void)s;
  fprintf(stderr, "{\"calls\":%lu,\"initialize\":%lu,\"list\":%lu,\"conns\":%lu,\"other\":%lu}\n", ncalls, ninit, nlist,
          nconn, nother);
  if (s != SIGUSR1) _exit(0);
}

/* --- tiny JSON walker: returns end of value starting at p */
static char *ws(char *p, char *e) {
  while (p < e && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t')) p++;
  return p;
}
static char *jstr(char *p, char *e) {
  p++;
  while (p < e && *p != '"') {
    if (*p == '\\') p++;
    p++;
  }
  return p + 1;
}
static char *jval(char *p, char *e) {
  p = ws(p, e);
  if (p >= e) return e;
  if (*p == '"') return jstr(p, e);
  if (*p == '{' || *p == '[') {
    int d = 0;
    while (p < e) {
      if (*p == '"') {
        p = jstr(p, e);
        continue;
      }
      if (*p == '{' || *p == '[') d++;
      if (*p == '}' || *p == ']') {
        if (--d == 0) return p + 1;
      }
      p++;
    }
    return e;
  }
  while (p < e && *p != ',' && *p != '}' && *p != ']' && *p != ' ' && *p != '\n') p++;
  return p;
}
static sl jget(sl o, const char *key) {
  sl r = {0, 0};
  char *p = ws(o.p, o.p + o.n), *e = o.p + o.n;
  size_t kn = strlen(key);
  if (!o.n || *p != '{') return r;
  p++;
  while (p < e) {
    p = ws(p, e);
    if (*p == '}') break;
    if (*p != '"') break;
    char *k = p + 1;
    p = jstr(p, e);
    size_t n = p - 1 - k;
    p = ws(p, e);
    if (*p == ':') p++;
    p = ws(p, e);
    char *v = p;
    p = jval(p, e);
    if (n == kn && !memcmp(k, key, kn)) {
      r.p = v;
      r.n = p - v;
      return r;
    }
    p = ws(p, e);
    if (*p == ',') p++;
  }
  return r;
}
static int eq(sl a, const char *s) {
  return a.n == strlen(s) && !memcmp(a.p, s, a.n);
}

static void outp(conn *c, const char *p, size_t n) {
  if (c->outlen + n > c->outcap) {
    c->outcap = (c->outlen + n) * 2 + 4096;
    c->out = realloc(c->out, c->outcap);
  }
  memcpy(c->out + c->outlen, p, n);
  c->outlen += n;
}
static void outs(conn *c, const char *s) {
  outp(c, s, strlen(s));
}
static void reply(conn *c, const char *body, size_t n, const char *extra, int as_sse) {
  char h[400];
  size_t bn = n + (as_sse ? strlen("event: message\ndata: \n\n") : 0);
  int k = snprintf(h, sizeof h, "HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s\r\n",
                   as_sse ? "text/event-stream" : "application/json", bn, extra ? extra : "");
  outp(c, h, k);
  if (as_sse) outs(c, "event: message\ndata: ");
  outp(c, body, n);
  if (as_sse) outs(c, "\n\n");
}
static char *bb;
static size_t bbn, bbcap;
static void B(const char *p, size_t n) {
  if (bbn + n + 1 > bbcap) {
    bbcap = (bbn + n) * 2 + 4096;
    bb = realloc(bb, bbcap);
  }
  memcpy(bb + bbn, p, n);
  bbn += n;
}
static void Bs(const char *s) {
  B(s, strlen(s));
}
#define CAPS "\"capabilities\":{\"tools\":{\"listChanged\":false},\"prompts\":{}}"
static int handle(conn *c, sl method, sl body, int modern) { /* returns 1 if the answer has to be delayed */
  if (eq(method, "GET")) {
    outs(c, "HTTP/1.1 405 Method Not Allowed\r\nAllow: POST\r\nContent-Length: 0\r\n\r\n");
    nother++;
    return 0;
  }
  if (eq(method, "DELETE")) {
    outs(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    nother++;
    return 0;
  }
  sl id = jget(body, "id"), m = jget(body, "method"), params = jget(body, "params");
  char extra[100];
  extra[0] = 0;
  if (!id.n) {
    outs(c, "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
    nother++;
    return 0;
  }
  bbn = 0;
  Bs("{\"jsonrpc\":\"2.0\",\"id\":");
  B(id.p, id.n);
  const char *rt = modern ? ",\"resultType\":\"complete\"" : "";
  if (eq(m, "\"tools/call\"")) {
    sl a = jget(params, "arguments"), t = jget(a, "text");
    ncalls++;
    Bs(",\"result\":{\"content\":[{\"type\":\"text\",\"text\":");
    if (t.n)
      B(t.p, t.n);
    else
      Bs("\"\"");
    Bs("}");
    if (pad) {
      Bs(",{\"type\":\"text\",\"text\":\"");
      B(padding, pad);
      Bs("\"}");
    }
    Bs("],\"isError\":false");
    Bs(rt);
    Bs("}}");
    reply(c, bb, bbn, NULL, sse);
    return delay_us > 0;
  }
  if (eq(m, "\"prompts/get\"")) {
    sl a = jget(params, "arguments"), t = jget(a, "text");
    ncalls++;
    Bs(",\"result\":{\"messages\":[{\"role\":\"user\",\"content\":{\"type\":\"text\",\"text\":");
    if (t.n)
      B(t.p, t.n);
    else
      Bs("\"\"");
    Bs("}}]");
    Bs(rt);
    Bs("}}");
    reply(c, bb, bbn, NULL, sse);
    return delay_us > 0;
  }
  if (eq(m, "\"tools/list\"")) {
    nlist++;
    Bs(",\"result\":{\"tools\":");
    B(toolsj, toolsn);
    if (modern) Bs(",\"ttlMs\":60000,\"cacheScope\":\"public\"");
    Bs(rt);
    Bs("}}");
  } else if (eq(m, "\"initialize\"")) {
    ninit++;
    sl v = jget(params, "protocolVersion");
    Bs(",\"result\":{\"protocolVersion\":");
    if (v.n && !eq(v, "\"2026-07-28\""))
      B(v.p, v.n);
    else
      Bs("\"2025-11-25\"");
    Bs("," CAPS ",\"serverInfo\":{\"name\":\"mcpup\",\"version\":\"1\"}}}");
    snprintf(extra, sizeof extra, "Mcp-Session-Id: %016lx\r\n", ++sess * 0x9E3779B97F4A7C15ul);
  } else if (eq(m, "\"server/discover\"")) {
    nother++;
    Bs(",\"result\":{\"supportedVersions\":[\"2026-07-28\"]," CAPS
       ",\"ttlMs\":60000,\"cacheScope\":\"public\",\"resultType\":\"complete\",\"_meta\":{\"io.modelcontextprotocol/"
       "serverInfo\":{\"name\":\"mcpup\",\"version\":\"1\"}}}}");
  } else if (eq(m, "\"ping\"")) {
    nother++;
    Bs(",\"result\":{}}");
  } else if (eq(m, "\"resources/list\"")) {
    nother++;
    Bs(",\"result\":{\"resources\":[]}}");
  } else if (eq(m, "\"prompts/list\"")) {
    nother++;
    Bs(",\"result\":{\"prompts\":[{\"name\":\"greet\",\"arguments\":[{\"name\":\"text\",\"required\":true}]}]");
    if (modern) Bs(",\"ttlMs\":60000,\"cacheScope\":\"public\"");
    Bs(rt);
    Bs("}}");
  } else if (eq(m, "\"resources/templates/list\"")) {
    nother++;
    Bs(",\"result\":{\"resourceTemplates\":[]}}");
  } else {
    nother++;
    Bs(",\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}");
  }
  reply(c, bb, bbn, extra, 0);
  return 0;
}
static void flush(conn *c) {
  while (c->outoff < c->outlen) {
    ssize_t r = send(c->fd, c->out + c->outoff, c->outlen - c->outoff, MSG_NOSIGNAL);
    if (r < 0) {
      if (errno == EAGAIN) {
        struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
        return;
      }
      c->outoff = c->outlen = 0;
      return;
    }
    c->outoff += r;
  }
  c->outoff = c->outlen = 0;
}
static void arm(void) {
  struct itimerspec it = {0};
  if (qh) {
    uint64_t n = now_us(), d = qh->due > n ? qh->due - n : 1;
    it.it_value.tv_sec = d / 1000000;
    it.it_value.tv_nsec = (d % 1000000) * 1000;
  }
  timerfd_settime(tfd, 0, &it, NULL);
}
static void freec(conn *c) {
  if (c->waiting) {
    c->dead = 1;
    return;
  }
  free(c->in);
  free(c->out);
  free(c);
}
static void parse(conn *c) {
  size_t off = 0;
  while (off < c->inlen && !c->waiting) {
    char *b = c->in + off;
    size_t n = c->inlen - off;
    char *he = memmem(b, n, "\r\n\r\n", 4);
    if (!he) break;
    size_t hl = he + 4 - b, cl = 0;
    int modern = 0;
    char *l = memchr(b, '\n', hl);
    sl meth = {b, (size_t)((char *)memchr(b, ' ', hl) - b)};
    for (l = l + 1; l < he;) {
      char *le = memchr(l, '\n', he + 2 - l);
      if (!le) break;
      if (!strncasecmp(l, "content-length:", 15))
        cl = strtoul(l + 15, NULL, 10);
      else if (!strncasecmp(l, "mcp-protocol-version:", 21))
        modern = memmem(l, le - l, "2026-07-28", 10) != NULL;
      else if (!strncasecmp(l, "transfer-encoding:", 18)) {
        outs(c, "HTTP/1.1 411 Length Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        flush(c);
        shutdown(c->fd, SHUT_RDWR);
        return;
      }
      l = le + 1;
    }
    if (n < hl + cl) break;
    sl body = {b + hl, cl};
    int d = handle(c, meth, body, modern);
    off += hl + cl;
    if (d) {
      c->waiting = 1;
      c->due = now_us() + delay_us;
      c->next = NULL;
      if (qt)
        qt->next = c;
      else
        qh = c;
      qt = c;
      if (qh == c) arm();
    }
  }
  if (off) {
    memmove(c->in, c->in + off, c->inlen - off);
    c->inlen -= off;
  }
  if (!c->waiting && c->outlen) flush(c);
}
int main(int ac, char **av) {
  int port = atoi(av[1]), o;
  optind = 2;
  while ((o = getopt(ac, av, "t:sd:p:y:")) > 0) {
    if (o == 't') ntools = atoi(optarg);
    if (o == 'y') awake_us = atol(optarg);
    if (o == 's') sse = 1;
    if (o == 'd') delay_us = atol(optarg);
    if (o == 'p') pad = atoi(optarg);
  }
  signal(SIGTERM, on_sig);
  signal(SIGINT, on_sig);
  signal(SIGUSR1, on_sig);
  signal(SIGPIPE, SIG_IGN);
  padding = malloc(pad + 1);
  memset(padding, 'x', pad);
  toolsj = malloc(200 + ntools * 400);
  char *p = toolsj;
  p += sprintf(p, "[");
  for (int i = 0; i < ntools; i++)
    p += sprintf(p,
                 "%s{\"name\":\"%s\",\"description\":\"Echo the text back, tool number %d of the benchmark "
                 "server.\",\"inputSchema\":{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\","
                 "\"description\":\"What to echo\"}},\"required\":[\"text\"]}}",
                 i ? "," : "",
                 i ? ({
                   static char nm[20];
                   sprintf(nm, "echo%d", i);
                   nm;
                 })
                   : "echo",
                 i);
  p += sprintf(p, "]");
  toolsn = p - toolsj;
  int s = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, 4);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(s, (void *)&a, sizeof a) || listen(s, 1024)) {
    perror("bind");
    return 1;
  }
  ep = epoll_create1(0);
  tfd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct epoll_event ev = {.events = EPOLLIN, .data.ptr = NULL}, evs[256];
  epoll_ctl(ep, EPOLL_CTL_ADD, s, &ev);
  ev.data.ptr = &tfd;
  epoll_ctl(ep, EPOLL_CTL_ADD, tfd, &ev);
  for (;;) {
    int n = 0;
    if (awake_us) {
      uint64_t patience = now_us() + awake_us;
      while (!n && now_us() < patience) {
        n = epoll_wait(ep, evs, 256, 0);
        if (!n) sched_yield();
      }
    }
    if (!n) n = epoll_wait(ep, evs, 256, -1);
    for (int i = 0; i < n; i++) {
      conn *c = evs[i].data.ptr;
      if (!c) {
        for (;;) {
          int fd = accept4(s, NULL, NULL, SOCK_NONBLOCK);
          if (fd < 0) break;
          nconn++;
          setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, 4);
          conn *k = calloc(1, sizeof *k);
          k->fd = fd;
          ev.events = EPOLLIN;
          ev.data.ptr = k;
          epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
        }
        continue;
      }
      if ((void *)c == (void *)&tfd) {
        uint64_t x;
        if (read(tfd, &x, 8) < 0) {
        }
        uint64_t t = now_us();
        while (qh && qh->due <= t) {
          conn *k = qh;
          qh = k->next;
          if (!qh) qt = NULL;
          k->waiting = 0;
          if (k->dead)
            freec(k);
          else {
            flush(k);
            parse(k);
          }
        }
        arm();
        continue;
      }
      if (evs[i].events & EPOLLOUT) {
        ev.events = EPOLLIN;
        ev.data.ptr = c;
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
        if (!c->waiting) flush(c);
      }
      if (evs[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        if (c->incap - c->inlen < 4096) {
          c->incap = c->incap * 2 + 8192;
          c->in = realloc(c->in, c->incap);
        }
        ssize_t r = recv(c->fd, c->in + c->inlen, c->incap - c->inlen, 0);
        if (r <= 0) {
          if (r < 0 && errno == EAGAIN) continue;
          close(c->fd);
          freec(c);
          continue;
        }
        c->inlen += r;
        parse(c);
      }
    }
  }
}
