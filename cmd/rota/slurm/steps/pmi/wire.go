// Package pmi is the process manager's side of PMI, through which the processes of an MPI program
// find each other. The processes store their addresses in a common table and meet in a barrier. It
// speaks the text protocols of PMI-1 and PMI-2.
package pmi

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Limits on messages of processes. The processes are told the limits of names, keys and values.
const (
	maxName, maxKey, maxValue = 256, 64, 1024
	maxMessage                = 1 << 16 // bytes of one message
)

// pair is one NAME=VALUE pair of a message.
type pair struct{ name, value string }

// message is a command with its values, in order.
type message []pair

// get returns the value for a name, or "".
func (m message) get(name string) string {
	for _, p := range m {
		if p.name == name {
			return p.value
		}
	}
	return ""
}

// command returns the name of the message's command.
func (m message) command() string { return m.get("cmd") }

// errTooLong ends the connection to a process that sends an overlong message.
var errTooLong = fmt.Errorf("a message has more than %d bytes", maxMessage)

// readLine reads a message of PMI-1: one line of pairs separated by blanks. Only the value of the
// last pair may contain blanks.
func readLine(r *bufio.Reader) (message, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxMessage:
			return nil, errTooLong
		case err == nil:
			return parseLine(strings.TrimRight(string(line), "\r\n"))
		case !errors.Is(err, bufio.ErrBufferFull):
			if errors.Is(err, io.EOF) && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
}

func parseLine(line string) (message, error) {
	var m message
	for rest := strings.TrimLeft(line, " "); rest != ""; {
		name, after, found := strings.Cut(rest, "=")
		if !found || name == "" || strings.Contains(name, " ") {
			return nil, fmt.Errorf("%q is not NAME=VALUE", rest)
		}
		value, next, _ := strings.Cut(after, " ")
		if name == "value" { // this value extends to the end of the line
			value, next = after, ""
		}
		m = append(m, pair{name, value})
		rest = strings.TrimLeft(next, " ")
	}
	if len(m) == 0 {
		return nil, errors.New("an empty message")
	}
	return m, nil
}

// line formats a message of PMI-1.
func (m message) line() []byte {
	var b []byte
	for i, p := range m {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, p.name+"="+p.value...)
	}
	return append(b, '\n')
}

// lengthDigits is the number of digits of the length field that starts a PMI-2 message.
const lengthDigits = 6

// readBlock reads a message of PMI-2: its length, then pairs that each end in a semicolon. A
// doubled semicolon stands for a semicolon in a value.
func readBlock(r io.Reader) (message, error) {
	var head [lengthDigits]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(head[:])))
	switch {
	case err != nil || n < 0:
		return nil, fmt.Errorf("%q is not the length of a message", head)
	case n > maxMessage:
		return nil, errTooLong
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return parseBlock(string(text))
}

func parseBlock(text string) (message, error) {
	var m message
	for text != "" {
		name, after, found := strings.Cut(text, "=")
		if !found || name == "" || strings.Contains(name, ";") {
			return nil, fmt.Errorf("%q is not NAME=VALUE;", text)
		}
		var value strings.Builder
		for {
			part, rest, ended := strings.Cut(after, ";")
			value.WriteString(part)
			if !ended {
				return nil, fmt.Errorf("the value of %s does not end in a semicolon", name)
			}
			if !strings.HasPrefix(rest, ";") {
				text = rest
				break
			}
			value.WriteByte(';')
			after = rest[1:]
		}
		m = append(m, pair{name, value.String()})
	}
	if len(m) == 0 {
		return nil, errors.New("an empty message")
	}
	return m, nil
}

// block formats a message of PMI-2.
func (m message) block() []byte {
	var b strings.Builder
	for _, p := range m {
		b.WriteString(p.name + "=" + strings.ReplaceAll(p.value, ";", ";;") + ";")
	}
	return fmt.Appendf(nil, "%*d%s", lengthDigits, b.Len(), b.String())
}
