// SPDX-License-Identifier: MIT
package tarn.bench.recyclers;

import io.netty.util.concurrent.DefaultThreadFactory;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Has JMH run the benchmarks in Netty's own threads, as its event loops are: in them the Recycler has its short way.
 * Named by the property jmh.executor.class.
 */
public final class FastThreads extends ThreadPoolExecutor {
    /** JMH calls it. */
    public FastThreads(int maximumThreads, String prefix) {
        super(maximumThreads, maximumThreads, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>(),
                new DefaultThreadFactory(prefix));
    }
}
