// Blocks over TCP with nothing around them: the limit that scripts/bench nodes compares with.
//   raw_tcp serve PORT
//   raw_tcp read ADDRESS PORT BLOCK_BYTES CONNECTIONS SECONDS    prints bytes per second
//   raw_tcp ping ADDRESS PORT BYTES ROUNDS                       prints the median round trip in ns
// A request is 4 bytes, the length of the block. Each connection has a thread and four requests under way.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MEMORY (512L << 20)
#define UNDER_WAY 4

static char *memory;
static struct sockaddr_in peer;
static uint32_t block_bytes;
static double end_s;

static double now_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

static int all(int fd, char *at, size_t bytes, int out) {
  while (bytes > 0) {
    ssize_t n = out ? send(fd, at, bytes, MSG_NOSIGNAL) : recv(fd, at, bytes, 0);
    if (n <= 0) return 0;
    at += n;
    bytes -= n;
  }
  return 1;
}

static int ready(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  return fd;
}

static int connected(void) {
  int fd = ready(socket(AF_INET, SOCK_STREAM, 0));
  if (connect(fd, (struct sockaddr *)&peer, sizeof peer) != 0) {
    perror("connect");
    exit(1);
  }
  return fd;
}

static void *serve(void *socket) {
  int fd = (int)(intptr_t)socket;
  size_t at = 0;
  uint32_t bytes;
  while (all(fd, (char *)&bytes, sizeof bytes, 0) && bytes <= MEMORY) {
    at = at + bytes > MEMORY ? 0 : at;
    if (!all(fd, memory + at, bytes, 1)) break;
    at += bytes;
  }
  close(fd);
  return NULL;
}

static void *read_blocks(void *number) {
  int fd = connected();
  size_t from = (size_t)(intptr_t)number * (MEMORY / 8), at = from;
  for (int i = 0; i < UNDER_WAY; i++) all(fd, (char *)&block_bytes, 4, 1);
  uint64_t got = 0;
  while (now_s() < end_s && all(fd, memory + at, block_bytes, 0)) {
    got += block_bytes;
    at = at + 2 * block_bytes > from + MEMORY / 8 ? from : at + block_bytes;
    all(fd, (char *)&block_bytes, 4, 1);
  }
  close(fd);
  return (void *)(uintptr_t)got;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int count, char **words) {
  if (count < 3) return 2;
  memory = malloc(MEMORY);
  memset(memory, 1, MEMORY);
  if (strcmp(words[1], "serve") == 0) {
    int one = 1, listening = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(atoi(words[2]))};
    setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listening, (struct sockaddr *)&here, sizeof here) != 0 || listen(listening, 16) != 0) {
      perror("listen");
      return 1;
    }
    puts("ready");
    fflush(stdout);
    for (;;) {
      pthread_t thread;
      int fd = accept(listening, NULL, NULL);
      if (fd >= 0) pthread_create(&thread, NULL, serve, (void *)(intptr_t)ready(fd));
    }
  }
  if (count < 6) return 2;
  peer = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(atoi(words[3]))};
  inet_pton(AF_INET, words[2], &peer.sin_addr);
  block_bytes = atoi(words[4]);
  if (strcmp(words[1], "ping") == 0) {
    int rounds = atoi(words[5]), fd = connected();
    double *took = malloc(rounds * sizeof *took);
    for (int i = 0; i < rounds; i++) {
      double begun = now_s();
      all(fd, (char *)&block_bytes, 4, 1);
      all(fd, memory, block_bytes, 0);
      took[i] = now_s() - begun;
    }
    qsort(took, rounds, sizeof *took, by_value);
    printf("%.0f\n", took[rounds / 2] * 1e9);
    return 0;
  }
  int connections = atoi(words[5]);
  double begun = now_s();
  end_s = begun + atof(words[6]);
  pthread_t threads[8];
  uint64_t sum = 0;
  for (int i = 0; i < connections && i < 8; i++) pthread_create(&threads[i], NULL, read_blocks, (void *)(intptr_t)i);
  for (int i = 0; i < connections && i < 8; i++) {
    void *got;
    pthread_join(threads[i], &got);
    sum += (uintptr_t)got;
  }
  printf("%.0f\n", sum / (now_s() - begun));
  return 0;
}
