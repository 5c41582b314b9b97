// SPDX-License-Identifier: MIT
package tarn.bench.recyclers;

import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.infra.Blackhole;
import java.util.concurrent.TimeUnit;

/** Small objects, taken and given back by the same thread. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Recyclers {
    private static final int BURST_LENGTH = 100;

    private final Message[] out = new Message[BURST_LENGTH];
    private long serial;

    @Benchmark
    public void getReleaseFresh(Blackhole hole) {
        Message message = new Message(null);
        message.first = ++serial;
        hole.consume(message);
    }

    @Benchmark
    public void getReleaseRecycled() {
        Message message = Message.RECYCLER.get();
        message.first = ++serial;
        message.giveBack();
    }

    @Benchmark
    @OperationsPerInvocation(BURST_LENGTH)
    public void burst100Fresh(Blackhole hole) {
        for (int i = 0; i < BURST_LENGTH; ++i) {
            Message message = new Message(null);
            message.first = i;
            out[i] = message;
        }
        for (Message message : out) {
            hole.consume(message);
        }
    }

    @Benchmark
    @OperationsPerInvocation(BURST_LENGTH)
    public void burst100Recycled() {
        for (int i = 0; i < BURST_LENGTH; ++i) {
            Message message = Message.RECYCLER.get();
            message.first = i;
            out[i] = message;
        }
        for (Message message : out) {
            message.giveBack();
        }
    }
}
