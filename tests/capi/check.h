/* SPDX-License-Identifier: MIT */
/* What the C tests share: the table, expectations, "N passed, N failed, 0 skipped". */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lathe/lathe.h"

static const lathe_api* lathe;
static int passed = 0;
static int failed = 0;

static inline void expect(int condition, const char* what) {
  if (condition) {
    ++passed;
  } else {
    ++failed;
    printf("failed: %s\n", what);
  }
}

/* Expects an error of `kind` and `reason` (NULL: any) whose message contains `part`. */
static inline void expect_error(lathe_error* error, lathe_error_kind kind, const char* reason,
                                const char* part) {
  if (error == NULL) {
    printf("no error: %s\n", part);
    expect(0, part);
    return;
  }
  const char* message = lathe->error_message(error);
  const int fits = lathe->error_kind(error) == kind && strstr(message, part) != NULL &&
                   (reason == NULL || strcmp(lathe->error_reason(error), reason) == 0);
  if (!fits) {
    printf("kind %d, reason %s: %s\n", (int)lathe->error_kind(error), lathe->error_reason(error),
           message);
  }
  expect(fits, part);
  lathe->error_free(error);
}

static inline void expect_done(lathe_error* error, const char* what) {
  if (error != NULL) printf("%s\n", lathe->error_message(error));
  expect(error == NULL, what);
  lathe->error_free(error);
}

static inline int equal(const char* a, const char* b) {
  return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static inline lathe_program* load_text(const char* text) {
  lathe_program* program = NULL;
  expect_done(lathe->program_load_memory(text, strlen(text), NULL, &program), "load a text");
  return program;
}

/* A session of the text for a target; NULL: the best one. */
static inline lathe_session* session_of(const char* text, const char* target) {
  lathe_program* program = load_text(text);
  lathe_compile_options options = LATHE_INIT(lathe_compile_options);
  options.target = target;
  lathe_plan* plan = NULL;
  lathe_session* session = NULL;
  expect_done(lathe->plan_compile(program, &options, &plan), "compile");
  expect_done(lathe->session_create(plan, NULL, &session), "create a session");
  lathe->plan_free(plan);
  lathe->program_free(program);
  return session;
}

static inline int finish(void) {
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed == 0 ? 0 : 1;
}
