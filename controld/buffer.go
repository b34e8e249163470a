package controld

import "sync"

// bufferMost is the size in bytes of a buffer that is worth keeping. Submissions of one job have some hundred.
const bufferMost = 64 << 10

var buffers = sync.Pool{New: func() any { return new([]byte) }}

// takeBuffer returns memory for a text that is needed for no longer than a request takes: submissions come by the ten thousand each
// second, and collecting garbage is a seventh of what one costs.
func takeBuffer() *[]byte { return buffers.Get().(*[]byte) }

// giveBuffer takes memory back. Nothing may point into it any more.
func giveBuffer(b *[]byte) {
	if cap(*b) <= bufferMost {
		buffers.Put(b)
	}
}
