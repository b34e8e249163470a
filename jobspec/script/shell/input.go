package shell

import (
	"io"
	"runtime"
	"strings"
)

// maxFrames bounds the depth of the parser's call stack. One level of nesting in the script takes
// about ten frames. Without a bound, a script of 1 MiB of opening parentheses overflows the stack.
const maxFrames = 1000

// checkEvery is the number of bytes between two checks of the stack depth.
const checkEvery = 512

// input gives a script to the parser line by line, so that a mistake costs only the lines before
// it. It ends early if the parser is nested too deeply.
type input struct {
	text         string
	given, check int // bytes given so far, and the count at which to check the stack next
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
