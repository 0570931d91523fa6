/* mcpload: MCP streamable-HTTP load generator, one thread, epoll, 127.0.0.1 only; it checks every answer.
 * build: gcc -O2 -o mcpload mcpload.c          (Linux 5.11 or newer: epoll_pwait2)
 * usage: mcpload -P PORT [-u PATH] [-c CONNECTIONS] [-T SECONDS] [-w WARMUP_SECONDS] [-n MAX_CALLS]
 *                [-e hs|modern|bare] [-r CALLS_PER_SECOND] [-x 'Header: v']... [-N TOOL] [-b TEXT_BYTES]
 *                [-m call|list|prompt|rest] (rest: POST /v1/tool-calls with an OpenAI message) [-S] (one shared session) [-p] (do not look for the text)
 *                [-R TOOLS] (TOOL is a format with one %d, that goes round from 0 to TOOLS-1 with each call)
 *                [-A MEMBERS] (raw JSON members that follow the text in the arguments)
 *                [-i MILLISECONDS] (tell the worst latency among the calls that were due in each interval of that length)
 *                [-y MICROSECONDS] (look for answers that long before it sleeps; not with -r)
 *                [-m body -B FILE -E TEXT] (POST what FILE has, "########" the call's number; TEXT is in every good answer)
 *                [-C CAPABILITIES] (the client's, a JSON object) [-k] (a progress token with each call) [-a ACCEPT]
 * Prints START when the warm-up is over, then one JSON object. -r is an open loop: latency counts from the scheduled
 * time, so nothing is hidden by coordinated omission. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static long awake_us;

enum { INIT, NOTIFY, READY, BUSY };
typedef struct conn {
  int fd, st, reused;
  uint64_t t0;
  unsigned long id;
  char sid[200];
  char *in;
  size_t n, cap;
  size_t hl;
  long cl;
  int chunked, close, status;
  size_t cpos;
  int isinit;
  char *out;
  size_t outn, outoff, outcap;
  struct conn *nextfree;
} conn;
enum { CALL, LIST, PROMPT, REST, BODY };
static const char *methods[] = {"tools/call", "tools/list", "prompts/get", "", "tools/call"};
#define MARK "########"
static const char *expected = "";
static char *body;
static size_t bodyn;
static int marked;
static int port = 0, C = 1, era = 0, mode = CALL, shared = 0, nocheck = 0, token = 0;
static const char *capabilities = "{}", *accepted = "application/json, text/event-stream";
static const char *path = "/mcp", *tool = "echo", *format = "echo", *more = "";
static int tools;
static double T = 5, W = 1, rate = 0;
static unsigned long maxn = 0;
static char xh[4096];
static char *text;
static int textn = 20;
static int ep;
static conn *cs, *freeq;
static unsigned long idc, done, eh, er, et, ed, e_conn, sent;
static char sample[700];
static char shsid[200];
static int phase;
static int nready;
static uint64_t tstart, tend;
#define NB (64 * 128)
static uint64_t hist[NB];
static double sum;
static uint64_t vmax;
#define NW 100000
static uint64_t worst[NW], interval, wstart;
static uint64_t ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ull + t.tv_nsec;
}
static int bk(uint64_t v) {
  if (v < 256) return v;
  int e = 63 - __builtin_clzll(v) - 7;
  return e * 128 + (int)(v >> e);
}
static double unbk(int i) {
  if (i < 256) return i;
  int e = i / 128 - 1;
  return ((double)(i - e * 128) + .5) * (double)(1ull << e);
}
static double pct(double p, unsigned long n) {
  unsigned long k = (unsigned long)(p * n), a = 0;
  if (k >= n) k = n ? n - 1 : 0;
  for (int i = 0; i < NB; i++) {
    a += hist[i];
    if (a > k) return unbk(i) / 1000.;
  }
  return 0;
}
static void warm_done(void) {
  memset(hist, 0, sizeof hist);
  sum = 0;
  vmax = 0;
  done = eh = er = et = ed = 0;
}
static void flush(conn *c) {
  while (c->outoff < c->outn) {
    ssize_t r = send(c->fd, c->out + c->outoff, c->outn - c->outoff, MSG_NOSIGNAL);
    if (r < 0) {
      if (errno == EAGAIN) {
        struct epoll_event ev = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
      }
      return;
    }
    c->outoff += r;
  }
  c->outn = c->outoff = 0;
}
static void dial(conn *c) {
  int one = 1;
  c->fd = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(c->fd, (void *)&a, sizeof a)) {
    perror("connect");
    e_conn++;
    exit(2);
  }
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, 4);
  int fl = 1;
  (void)fl;
  struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &ev);
  c->n = c->hl = 0;
  c->reused = 0;
}
static void post(conn *c, const char *hdr, const char *body, size_t bn) {
  size_t need = bn + 1500 + strlen(xh) + strlen(accepted);
  if (c->outcap < need) {
    c->outcap = need * 2;
    c->out = realloc(c->out, c->outcap);
  }
  char *sid = shared ? shsid : c->sid;
  char sh[260] = "";
  if (sid[0]) snprintf(sh, sizeof sh, "Mcp-Session-Id: %s\r\n", sid);
  int k = sprintf(c->out,
                  "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nAccept: "
                  "%s\r\n%s%s%sContent-Length: %zu\r\n\r\n",
                  path, port, accepted, sh, hdr, xh, bn);
  memcpy(c->out + k, body, bn);
  c->outn = k + bn;
  c->outoff = 0;
  c->n = c->hl = 0;
  c->status = 0;
  flush(c);
}
static void do_init(conn *c) {
  c->st = INIT;
  static char b[2048];
  int n = snprintf(b, sizeof b,
                   "{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"2025-11-25\","
                   "\"capabilities\":%s,\"clientInfo\":{\"name\":\"mcpload\",\"version\":\"1\"}}}",
                   capabilities);
  post(c, "", b, n);
}
static void do_notify(conn *c) {
  c->st = NOTIFY;
  static const char b[] = "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}";
  post(c, "MCP-Protocol-Version: 2025-11-25\r\n", b, sizeof b - 1);
}
static void call(conn *c, uint64_t t0) {
  static char b[1 << 20];
  char h[300];
  c->st = BUSY;
  c->id = ++idc;
  if (tools) {
    static char name[256];
    snprintf(name, sizeof name, format, (int)(c->id % tools));
    tool = name;
  }
  c->t0 = t0;
  sent++;
  static char meta[2048];
  char progress[60] = "";
  if (token) sprintf(progress, "\"progressToken\":%lu", c->id);
  if (era == 1)
    snprintf(meta, sizeof meta,
             "\"_meta\":{%s%s\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"io.modelcontextprotocol/"
             "clientInfo\":{\"name\":\"mcpload\",\"version\":\"1\"},\"io.modelcontextprotocol/clientCapabilities\":%s}",
             progress, token ? "," : "", capabilities);
  else if (token)
    snprintf(meta, sizeof meta, "\"_meta\":{%s}", progress);
  int n;
  if (mode == BODY) {
    memcpy(b, body, n = bodyn);
    char number[10];
    sprintf(number, "%08lu", c->id % 100000000);
    for (char *at = b; marked && (at = memmem(at, b + n - at, MARK, 8)); at += 8) memcpy(at, number, 8);
  } else if (mode == LIST)
    n = sprintf(b, "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"method\":\"tools/list\",\"params\":{%s}}", c->id, meta);
  else if (mode == REST)
    n = sprintf(b,
                "{\"format\":\"openai\",\"message\":{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":"
                "\"call_%lu\",\"type\":\"function\",\"function\":{\"name\":\"%s\",\"arguments\":\"{\\\"text\\\":"
                "\\\"%08lu%s\\\"}\"}}]}}",
                c->id, tool, c->id % 100000000, text);
  else
    n = sprintf(b,
                "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"method\":\"%s\",\"params\":{\"name\":\"%s\",\"arguments\":{\"text\":"
                "\"%08lu%s\"%s%s}%s%s}}",
                c->id, methods[mode], tool, c->id % 100000000, text, more[0] ? "," : "", more, meta[0] ? "," : "",
                meta);
  if (mode == REST)
    h[0] = 0;
  else if (era == 1)
    snprintf(h, sizeof h, "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: %s\r\n%s%s%s", methods[mode],
             mode == LIST ? "" : "Mcp-Name: ", mode == LIST ? "" : tool, mode == LIST ? "" : "\r\n");
  else
    strcpy(h, era == 0 ? "MCP-Protocol-Version: 2025-11-25\r\n" : "");
  post(c, h, b, n);
}
static int hdr(conn *c) {
  char *he = memmem(c->in, c->n, "\r\n\r\n", 4);
  if (!he) return 0;
  c->hl = he + 4 - c->in;
  c->cl = -1;
  c->chunked = c->close = 0;
  c->status = atoi(c->in + 9);
  char *l = memchr(c->in, '\n', c->hl) + 1;
  while (l < he + 2) {
    char *le = memchr(l, '\n', he + 4 - l);
    if (!le) break;
    if (!strncasecmp(l, "content-length:", 15))
      c->cl = atol(l + 15);
    else if (!strncasecmp(l, "transfer-encoding:", 18))
      c->chunked = 1;
    else if (!strncasecmp(l, "connection:", 11) && strcasestr(l, "close") && strcasestr(l, "close") < le)
      c->close = 1;
    else if (!strncasecmp(l, "mcp-session-id:", 15) && c->st == INIT) {
      char *v = l + 15;
      while (*v == ' ') v++;
      int k = 0;
      while (v < le && *v != '\r' && k < 199) c->sid[k++] = *v++;
      c->sid[k] = 0;
      if (shared && !shsid[0]) strcpy(shsid, c->sid);
    }
    l = le + 1;
  }
  if (c->status == 202 || c->status == 204) {
    if (c->cl < 0 && !c->chunked) c->cl = 0;
  }
  c->cpos = c->hl;
  return 1;
}
static int complete(conn *c) {
  if (!c->hl && !hdr(c)) return 0;
  if (c->chunked) {
    for (;;) {
      char *p = c->in + c->cpos;
      char *le = memmem(p, c->n - c->cpos, "\r\n", 2);
      if (!le) return 0;
      long k = strtol(p, NULL, 16);
      size_t nx = (le - c->in) + 2 + k + 2;
      if (nx > c->n) return 0;
      c->cpos = nx;
      if (k == 0) return 1;
    }
  }
  if (c->cl >= 0) return c->n >= c->hl + (size_t)c->cl;
  return 0;
}
static void bad(unsigned long *ctr, conn *c) {
  if (!sample[0]) {
    size_t k = c->n < 600 ? c->n : 600;
    for (size_t i = 0; i < k; i++) {
      char ch = c->in[i];
      sample[i] = (ch < 32 || ch == '"' || ch == '\\') ? (ch == 34 ? 39 : ' ') : ch;
    }
    sample[k] = 0;
  }
  (*ctr)++;
}
/* A list is that of the first answer, byte for byte: cheaper than to look through all of it, and more. */
static int same_list(const char *b, size_t n) {
  static char *known;
  static size_t length;
  const char *from = memmem(b, n < 4096 ? n : 4096, "\"result\"", 8);
  if (!from) return 0;
  n -= from - b;
  if (!known) {
    if (!memmem(from, n, "\"inputSchema\"", 13) || memmem(from, n, "\"isError\":true", 14)) return 0;
    known = malloc(length = n);
    memcpy(known, from, n);
  }
  return n == length && !memcmp(known, from, n);
}
static void check(conn *c) {
  uint64_t v = ns() - c->t0;
  char *b = c->in + c->hl;
  size_t n = c->n - c->hl;
  if (c->status != 200) {
    bad(&eh, c);
  } else if (mode == LIST) {
    if (!same_list(b, n)) bad(&er, c);
  } else if (mode == BODY && !memmem(b, n, expected, strlen(expected))) {
    bad(&er, c);
  } else if (mode == BODY && !marked) {
    if (memmem(b, n, "\"isError\":true", 14)) bad(&er, c);
  } else if ((mode != BODY && !memmem(b, n, mode == REST ? "\"messages\"" : "\"result\"", mode == REST ? 10 : 8)) ||
             memmem(b, n, "\"isError\":true", 14) || memmem(b, n, "\"isError\": true", 15)) {
    bad(&er, c);
  } else {
    char k1[40];
    int kn = sprintf(k1, "\"%08lu", c->id % 100000000);
    if (!nocheck && !memmem(b, n, k1, kn)) {
      char k2[40];
      kn = sprintf(k2, "%08lu", c->id % 100000000);
      if (!memmem(b, n, k2, kn)) bad(&et, c);
    }
  }
  done++;
  sum += v;
  if (v > vmax) vmax = v;
  if (interval && c->t0 >= wstart && wstart) {
    uint64_t k = (c->t0 - wstart) / interval;
    if (k < NW && v > worst[k]) worst[k] = v;
  }
  int i = bk(v);
  hist[i < NB ? i : NB - 1]++;
}
static uint64_t nextdue;
static unsigned long backlog_max;
static void pump(uint64_t t) {
  if (!rate) return;
  uint64_t step = (uint64_t)(1e9 / rate);
  while (nextdue <= t && freeq && phase < 3) {
    conn *c = freeq;
    freeq = c->nextfree;
    call(c, nextdue);
    nextdue += step;
  }
  if (nextdue < t) {
    unsigned long b = (t - nextdue) / step;
    if (b > backlog_max) backlog_max = b;
  }
}
static void ready(conn *c) {
  if (c->close || c->cl < -1) {
    close(c->fd);
    dial(c);
    ed++;
  }
  if (phase == 3) return;
  if (rate) {
    c->st = READY;
    c->nextfree = freeq;
    freeq = c;
    pump(ns());
  } else if (maxn && phase == 2 && sent >= maxn) {
    c->st = READY;
  } else
    call(c, ns());
}
static void on_complete(conn *c) {
  if (c->st == INIT) {
    if (c->status != 200 || !memmem(c->in + c->hl, c->n - c->hl, "protocolVersion", 15)) {
      fprintf(stderr, "initialize failed: %.*s\n", (int)(c->n < 900 ? c->n : 900), c->in);
      exit(3);
    }
    if (c->close) {
      close(c->fd);
      dial(c);
    }
    do_notify(c);
  } else if (c->st == NOTIFY) {
    if (c->close) {
      close(c->fd);
      dial(c);
      c->close = 0;
    }
    c->st = READY;
    nready++;
  } else {
    check(c);
    ready(c);
  }
}
static void read_body(const char *name) {
  FILE *file = fopen(name, "r");
  if (!file) {
    perror(name);
    exit(2);
  }
  body = malloc(1 << 20);
  bodyn = fread(body, 1, 1 << 20, file);
  fclose(file);
  marked = memmem(body, bodyn, MARK, 8) != NULL;
}
int main(int ac, char **av) {
  int o;
  while ((o = getopt(ac, av, "P:u:c:T:w:n:e:r:x:N:b:m:R:A:i:Spy:C:ka:B:E:")) > 0) switch (o) {
    case 'y':
      awake_us = atol(optarg);
      break;
    case 'P':
      port = atoi(optarg);
      break;
    case 'u':
      path = optarg;
      break;
    case 'c':
      C = atoi(optarg);
      break;
    case 'T':
      T = atof(optarg);
      break;
    case 'w':
      W = atof(optarg);
      break;
    case 'n':
      maxn = atol(optarg);
      break;
    case 'e':
      era = optarg[0] == 'm' ? 1 : optarg[0] == 'b' ? 2 : 0;
      break;
    case 'r':
      rate = atof(optarg);
      break;
    case 'x':
      strcat(xh, optarg);
      strcat(xh, "\r\n");
      break;
    case 'N':
      tool = format = optarg;
      break;
    case 'R':
      tools = atoi(optarg);
      break;
    case 'A':
      more = optarg;
      break;
    case 'i':
      interval = (uint64_t)(atof(optarg) * 1e6);
      break;
    case 'b':
      textn = atoi(optarg);
      break;
    case 'm':
      mode = optarg[0] == 'b' ? BODY : optarg[0] == 'l' ? LIST : optarg[0] == 'p' ? PROMPT : optarg[0] == 'r' ? REST : CALL;
      break;
    case 'B':
      read_body(optarg);
      break;
    case 'E':
      expected = optarg;
      break;
    case 'C':
      capabilities = optarg;
      break;
    case 'k':
      token = 1;
      break;
    case 'a':
      accepted = optarg;
      break;
    case 'S':
      shared = 1;
      break;
    case 'p':
      nocheck = 1;
      break;
    }
  text = malloc(textn + 1);
  memset(text, 'a', textn);
  text[textn] = 0;
  ep = epoll_create1(0);
  cs = calloc(C, sizeof *cs);
  struct epoll_event evs[512];
  for (int i = 0; i < C; i++) {
    dial(&cs[i]);
    if (era == 0 && !(shared && i > 0))
      do_init(&cs[i]);
    else {
      cs[i].st = READY;
      nready++;
    }
  }
  uint64_t t = ns(), setup = t;
  double setup_s = 0;
  for (;;) {
    t = ns();
    if (phase == 0 && nready == C) {
      phase = 1;
      setup_s = (t - setup) / 1e9;
      tstart = t;
      tend = t + (uint64_t)(W * 1e9);
      nextdue = t;
      for (int i = 0; i < C; i++) {
        if (rate) {
          cs[i].nextfree = freeq;
          freeq = &cs[i];
        } else
          call(&cs[i], ns());
      }
    } else if (phase == 0 && t - setup > 60e9) {
      fprintf(stderr, "setup timed out (%d of %d ready)\n", nready, C);
      exit(4);
    }
    if (phase == 1 && t >= tend) { /* at once without warm-up, before any call is answered */
      phase = 2;
      warm_done();
      sent = rate ? 0 : C; /* the calls in flight are answered in this phase: the last answer is that of the last call */
      backlog_max = 0;
      tstart = wstart = t;
      tend = t + (uint64_t)(T * 1e9);
      puts("START");
      fflush(stdout);
    } else if (phase == 2 && (t >= tend || (maxn && done >= maxn))) {
      break;
    }
    if (phase) pump(t);
    int to = 100;
    if (rate && phase) {
      uint64_t tt = ns();
      to = freeq ? (nextdue > tt ? (int)((nextdue - tt) / 1000000) : 0) : 100;
    }
    struct timespec ts = {to / 1000, (to % 1000) * 1000000l};
    if (rate && phase && freeq) {
      uint64_t tt = ns();
      uint64_t d = nextdue > tt ? nextdue - tt : 0;
      ts.tv_sec = d / 1000000000ull;
      ts.tv_nsec = d % 1000000000ull;
    }
    uint64_t patience = ns() + awake_us * 1000ull;
    struct timespec none = {0, 0};
    int n = 0;
    while (!n && awake_us && !rate && ns() < patience) {
      n = epoll_pwait2(ep, evs, 512, &none, NULL);
      if (!n) sched_yield();
    }
    if (!n) n = epoll_pwait2(ep, evs, 512, &ts, NULL);
    for (int i = 0; i < n; i++) {
      conn *c = evs[i].data.ptr;
      if (evs[i].events & EPOLLOUT) {
        struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
        epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &ev);
        flush(c);
        if (!(evs[i].events & EPOLLIN)) continue;
      }
      if (c->cap - c->n < 65536) {
        c->cap = c->cap * 2 + 131072;
        c->in = realloc(c->in, c->cap);
      }
      ssize_t r = recv(c->fd, c->in + c->n, c->cap - c->n, MSG_DONTWAIT);
      if (r < 0 && errno == EAGAIN) continue;
      if (r <= 0) {
        close(c->fd);
        int had = c->hl && c->cl < 0 && !c->chunked;
        int st = c->st;
        if (st == BUSY && had) {
          dial(c);
          ed++;
          check(c);
          c->close = 0;
          ready(c);
        } else {
          if (st == BUSY) {
            ed++;
            done++;
            bad(&eh, c);
          } else if (st < READY) {
            fprintf(stderr, "closed in setup\n");
            exit(5);
          }
          dial(c);
          if (st == BUSY) {
            c->close = 0;
            c->cl = 0;
            ready(c);
          }
        }
        continue;
      }
      c->n += r;
      if (complete(c)) on_complete(c);
    }
  }
  double secs = (ns() - tstart) / 1e9;
  static char intervals[20 * NW];
  int at = 0;
  for (uint64_t k = 0; interval && k < NW && k * interval < (uint64_t)(T * 1e9); k++)
    at += sprintf(intervals + at, "%s%.1f", k ? "," : "", worst[k] / 1000.);
  unsigned long ok = done - eh - er - et;
  printf("{\"conns\":%d,\"era\":\"%s\",\"rate\":%g,\"secs\":%.6f,\"setup_s\":%.3f,\"calls\":%lu,\"ok\":%lu,\"rps\":%."
         "1f,\"mean_us\":%.1f,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"err_"
         "http\":%lu,\"err_rpc\":%lu,\"err_text\":%lu,\"reconnects\":%lu,\"backlog_max\":%lu,\"worst\":[%s],\"sample\":\"%s\"}\n",
         C,
         era == 1   ? "modern"
         : era == 2 ? "bare"
                    : "hs",
         rate, secs, setup_s, done, ok, ok / secs, done ? sum / done / 1000 : 0, pct(.5, done), pct(.9, done),
         pct(.99, done), pct(.999, done), vmax / 1000., eh, er, et, ed, backlog_max, intervals, sample);
  return 0;
}
