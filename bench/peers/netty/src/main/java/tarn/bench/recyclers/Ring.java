// SPDX-License-Identifier: MIT
package tarn.bench.recyclers;

import java.util.concurrent.atomic.AtomicLong;

/**
 * Passes batches of references from one thread to one other. Only the producer sets {@code written}, only the consumer
 * {@code read}. The same in all languages: bench/workloads/pipeline.hpp, bench/peers/go/ring.go.
 */
final class Ring {
    static final int BATCH_LENGTH = 32;
    static final int RING_LENGTH = 32;

    /** A number that shares its cache line with no other. */
    @SuppressWarnings("serial")
    private static final class Sequence extends AtomicLong {
        long p1, p2, p3, p4, p5, p6, p7, p8, p9, p10, p11, p12, p13, p14, p15;
    }

    private final Message[][] batches = new Message[RING_LENGTH][BATCH_LENGTH];
    private final Sequence written = new Sequence();
    private final Sequence read = new Sequence();

    /** The batch that the producer may fill; waits for the consumer. */
    Message[] freeBatch(long at) {
        while (at - read.getAcquire() >= RING_LENGTH) {
            Thread.yield();
        }
        return batches[(int) (at % RING_LENGTH)];
    }

    void publish(long at) {
        written.setRelease(at + 1);
    }

    /** The batch that the consumer may empty, or null if there is none. */
    Message[] fullBatch(long at) {
        return written.getAcquire() == at ? null : batches[(int) (at % RING_LENGTH)];
    }

    void release(long at) {
        read.setRelease(at + 1);
    }
}
