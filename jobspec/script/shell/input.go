package shell

import (
	"io"
	"runtime"
	"strings"
)

// maxFrames bounds how many calls of functions the parser may be in. One level of nesting takes
// about ten. Without a bound, a script of 1 MiB of opening parentheses overflows the stack.
const maxFrames = 1000

// checkEvery is how many bytes the parser gets between two looks at its calls.
const checkEvery = 512

// input gives a script to the parser line by line, so that a mistake costs no more than the lines
// up to it. It ends early when the parser is nested too deeply.
type input struct {
	text         string
	given, check int // bytes: that were given, and when to look at the calls
	frames       []uintptr
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	if in.given >= in.check {
		if runtime.Callers(0, in.frames) == len(in.frames) {
			return 0, io.EOF
		}
		in.check = in.given + checkEvery
	}
	if in.text == "" {
		return 0, io.EOF
	}
	line := len(in.text)
	if end := strings.IndexByte(in.text, '\n'); end >= 0 {
		line = end + 1
	}
	n := copy(p, in.text[:line])
	in.text = in.text[n:]
	in.given += n
	return n, nil
}
