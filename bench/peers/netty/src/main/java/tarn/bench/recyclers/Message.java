// SPDX-License-Identifier: MIT
package tarn.bench.recyclers;

import io.netty.util.Recycler;

/** What the recyclers hold: 64 bytes, of which the header and the handle take 16. Users write one word. */
final class Message {
    /** Reached from all threads, with Netty's defaults. */
    static final Recycler<Message> RECYCLER = new Recycler<>() {
        @Override
        protected Message newObject(Handle<Message> handle) {
            return new Message(handle);
        }
    };

    long first;
    long second;
    long third;
    long fourth;
    long fifth;
    long sixth;
    private final Recycler.Handle<Message> handle;

    /** A null handle is that of a message that does not come back. */
    Message(Recycler.Handle<Message> handle) {
        this.handle = handle;
    }

    void giveBack() {
        first = 0;
        handle.recycle(this);
    }
}
