// SPDX-License-Identifier: MIT
// Annotations for Clang's analysis of locks (-Wthread-safety): which lock guards a member, and which locks a function
// takes, releases or requires. Other compilers see nothing. clang-tidy reports what the analysis finds (.clang-tidy).
#pragma once

#if defined(__clang__)
#define TARN_THREAD_SAFETY(x) __attribute__((x))
#else
#define TARN_THREAD_SAFETY(x)
#endif

#define TARN_CAPABILITY TARN_THREAD_SAFETY(capability("mutex"))
#define TARN_SCOPED_CAPABILITY TARN_THREAD_SAFETY(scoped_lockable)
#define TARN_GUARDED_BY(lock) TARN_THREAD_SAFETY(guarded_by(lock))
#define TARN_REQUIRES(...) TARN_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define TARN_ACQUIRE(...) TARN_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define TARN_RELEASE(...) TARN_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define TARN_RETURNS_LOCK(lock) TARN_THREAD_SAFETY(lock_returned(lock))
// For a function that the analysis cannot follow. Its comment says which lock it holds, or why it needs none.
#define TARN_NOT_ANALYZED TARN_THREAD_SAFETY(no_thread_safety_analysis)
