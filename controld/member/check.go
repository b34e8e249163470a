package member

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/hashicorp/go-msgpack/v2/codec"
	"github.com/hashicorp/memberlist"
)

// memberlist 0.6.0 decompresses messages without a bound, makes buffers of the length that a header
// claims, and panics on short lists of versions. So messages are looked at before the library gets
// them, and those that no member of Rota sends are refused.

// Kinds of the library's messages.
const (
	msgPing = iota
	msgIndirectPing
	msgAck
	msgSuspect
	msgAlive
	msgDead
	msgPushPull
	msgCompound
	msgUser
	msgCompressed
	msgEncrypted
	msgNack
	msgChecksum
	msgError
)

// Limits of messages.
const (
	nodesMax   = 20_000   // members that one exchange of states may have
	frameMax   = 16 << 20 // bytes of one message over a stream
	nameMax    = 80       // bytes of a member's name with its role
	versionLen = 6        // of the list of versions
)

var errRefused = errors.New("gossip message refused")

// checkPacket refuses a packet that the library must not get.
func checkPacket(b []byte) error { return checkMessage(b, true) }

// checkMessage checks one message; only the outermost one may have others in it.
func checkMessage(b []byte, outer bool) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: it is empty", errRefused)
	}
	switch b[0] {
	case msgPing, msgIndirectPing, msgAck, msgNack, msgSuspect, msgDead:
		return nil
	case msgAlive:
		var m memberState
		if err := decodeMessage(bytes.NewReader(b[1:]), &m); err != nil {
			return err
		}
		return m.check(m.Node)
	case msgChecksum:
		if outer && len(b) > 5 && b[5] != msgChecksum {
			return checkMessage(b[5:], true)
		}
	case msgCompound:
		if outer {
			return checkCompound(b[1:])
		}
	}
	return fmt.Errorf("%w: kind %d", errRefused, b[0])
}

// checkCompound checks the messages of a packet that has several: their number, their lengths, and then
// the messages.
func checkCompound(b []byte) error {
	if len(b) == 0 || len(b) < 1+2*int(b[0]) {
		return fmt.Errorf("%w: it is truncated", errRefused)
	}
	n := int(b[0])
	lengths, rest := b[1:1+2*n], b[1+2*n:]
	for i := range n {
		length := int(binary.BigEndian.Uint16(lengths[2*i:]))
		if length > len(rest) {
			return nil // the library drops the cut-off rest
		}
		if err := checkMessage(rest[:length], false); err != nil {
			return err
		}
		rest = rest[length:]
	}
	return nil
}

// memberState is a member in a message: the name is Node in one kind, and Name in the other.
type memberState struct {
	Node, Name string
	Addr       []byte
	Port       uint16
	Meta       []byte
	Vsn        []uint8
}

func (m *memberState) check(name string) error {
	if len(name) == 0 || len(name) > nameMax || len(m.Vsn) != versionLen || len(m.Meta) > memberlist.MetaMaxSize ||
		len(m.Addr) != net.IPv4len && len(m.Addr) != net.IPv6len {
		return fmt.Errorf("%w: member %.*q, address of %d bytes, %d bytes about itself, %d versions", errRefused, nameMax,
			name, len(m.Addr), len(m.Meta), len(m.Vsn))
	}
	return nil
}

// checkStream refuses a message over a stream that the library must not get.
func checkStream(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: it is empty", errRefused)
	}
	switch b[0] {
	case msgPing, msgAck, msgError:
		return nil
	case msgPushPull:
	default:
		return fmt.Errorf("%w: kind %d", errRefused, b[0])
	}
	r := bytes.NewReader(b[1:])
	dec := codec.NewDecoder(r, &codec.MsgpackHandle{})
	var header struct {
		Nodes, UserStateLen int
		Join                bool
	}
	if err := dec.Decode(&header); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	if header.Nodes < 0 || header.Nodes > nodesMax || header.UserStateLen != 0 {
		return fmt.Errorf("%w: %d members and %d other bytes", errRefused, header.Nodes, header.UserStateLen)
	}
	for range header.Nodes {
		var m memberState
		if err := dec.Decode(&m); err != nil {
			return fmt.Errorf("%w: %w", errRefused, err)
		}
		if err := m.check(m.Name); err != nil {
			return err
		}
	}
	return nil
}

func decodeMessage(r io.Reader, out any) error {
	if err := codec.NewDecoder(r, &codec.MsgpackHandle{}).Decode(out); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return nil
}
