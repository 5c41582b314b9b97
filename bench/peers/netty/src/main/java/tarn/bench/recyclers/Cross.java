// SPDX-License-Identifier: MIT
package tarn.bench.recyclers;

import io.netty.util.concurrent.FastThreadLocalThread;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import java.util.concurrent.TimeUnit;

/** Taken by one thread, given back by another. JMH times the producer, which the bounded ring holds to the pace of both. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Cross {
    private final Ring ring = new Ring();
    private volatile boolean stopping;
    private volatile boolean recycled;
    private long batches;
    private long wrong;
    private Thread consumer;

    @Setup
    public void start() {
        consumer = new FastThreadLocalThread(this::consume, "consumer");
        consumer.setDaemon(true);
        consumer.start();
    }

    @TearDown
    public void stop() throws InterruptedException {
        stopping = true;
        consumer.join();
        if (wrong != 0) {
            throw new IllegalStateException(wrong + " objects were overwritten");
        }
    }

    private void consume() {
        for (long at = 0;; ++at) {
            Message[] batch;
            while ((batch = ring.fullBatch(at)) == null) {
                if (stopping) {
                    return;
                }
                Thread.yield();
            }
            empty(batch, at * Ring.BATCH_LENGTH);
            ring.release(at);
        }
    }

    private void empty(Message[] batch, long serial) {
        boolean back = recycled;
        for (Message message : batch) {
            if (message.first != serial) {
                ++wrong;
            }
            ++serial;
            if (back) {
                message.giveBack();
            }
        }
    }

    @Benchmark
    @OperationsPerInvocation(Ring.BATCH_LENGTH)
    public void crossFresh() {
        Message[] batch = ring.freeBatch(batches);
        long serial = batches * Ring.BATCH_LENGTH;
        for (int i = 0; i < Ring.BATCH_LENGTH; ++i) {
            Message message = new Message(null);
            message.first = serial++;
            batch[i] = message;
        }
        ring.publish(batches++);
    }

    @Benchmark
    @OperationsPerInvocation(Ring.BATCH_LENGTH)
    public void crossRecycled() {
        recycled = true;
        Message[] batch = ring.freeBatch(batches);
        long serial = batches * Ring.BATCH_LENGTH;
        for (int i = 0; i < Ring.BATCH_LENGTH; ++i) {
            Message message = Message.RECYCLER.get();
            message.first = serial++;
            batch[i] = message;
        }
        ring.publish(batches++);
    }
}
