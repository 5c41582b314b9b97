// SPDX-License-Identifier: MIT
package tarn.bench.recyclers;

import io.netty.util.Recycler;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.infra.Blackhole;
import java.util.Arrays;
import java.util.concurrent.TimeUnit;

/** A buffer of 10,000 bytes: made, filled and dropped; reused by hand; reused by the Recycler. */
@State(Scope.Thread)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Buffers {
    private static final int BUFFER_LENGTH = 10000;

    private static final Recycler<Buffer> RECYCLER = new Recycler<>() {
        @Override
        protected Buffer newObject(Handle<Buffer> handle) {
            return new Buffer(handle);
        }
    };

    private static final class Buffer {
        private byte[] bytes = new byte[0];
        private int length;
        private final Recycler.Handle<Buffer> handle;

        Buffer(Recycler.Handle<Buffer> handle) {
            this.handle = handle;
        }

        void append(byte[] content) {
            if (bytes.length - length < content.length) {
                bytes = Arrays.copyOf(bytes, length + content.length);
            }
            System.arraycopy(content, 0, bytes, length, content.length);
            length += content.length;
        }
    }

    private final byte[] content = new byte[BUFFER_LENGTH];
    private final Buffer byHand = new Buffer(null);

    @Benchmark
    public void buffer10kFresh(Blackhole hole) {
        Buffer buffer = new Buffer(null);
        buffer.append(content);
        hole.consume(buffer);
    }

    @Benchmark
    public void buffer10kByHand(Blackhole hole) {
        byHand.length = 0;
        byHand.append(content);
        hole.consume(byHand);
    }

    @Benchmark
    public void buffer10kRecycled(Blackhole hole) {
        Buffer buffer = RECYCLER.get();
        buffer.append(content);
        hole.consume(buffer);
        buffer.length = 0;
        buffer.handle.recycle(buffer);
    }
}
