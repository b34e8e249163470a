package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// envelope is the form of an entry in the log.
type envelope struct {
	Kind Kind            `json:"kind"`
	At   Instant         `json:"at"`
	Wall UnixMS          `json:"wall"`
	Body json.RawMessage `json:"body"`
}

// Encode returns an entry as one line of JSON without the line's end.
func Encode(e Entry) ([]byte, error) {
	if !known(e.Command) {
		return nil, fmt.Errorf("encode entry: %w", &UnknownKindError{Kind: kindOf(e.Command)})
	}
	body, err := json.Marshal(e.Command)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Command.Kind(), err)
	}
	return json.Marshal(envelope{Kind: e.Command.Kind(), At: e.At, Wall: e.Wall, Body: body})
}

// Decode is the reverse of Encode. It is strict: an unknown kind is an *UnknownKindError, and fields that this version does not
// know are an error too, since to leave them out would be to apply another command than the other replicas do.
func Decode(data []byte) (Entry, error) {
	var env envelope
	if err := decodeStrict(data, &env); err != nil {
		return Entry{}, fmt.Errorf("decode entry: %w", err)
	}
	decode, ok := decoders[env.Kind]
	if !ok {
		return Entry{}, fmt.Errorf("decode entry: %w", &UnknownKindError{Kind: env.Kind})
	}
	c, err := decode(env.Body)
	if err != nil {
		return Entry{}, fmt.Errorf("decode %s: %w", env.Kind, err)
	}
	return Entry{Stamp: Stamp{At: env.At, Wall: env.Wall}, Command: c}, nil
}

var decoders = map[Kind]func([]byte) (Command, error){
	KindSubmitJobs:   decodeAs[SubmitJobs],
	KindControlJobs:  decodeAs[ControlJobs],
	KindRegisterNode: decodeAs[RegisterNode],
	KindSetNodeState: decodeAs[SetNodeState],
	KindCommitPlan:   decodeAs[CommitPlan],
	KindNodeReport:   decodeAs[NodeReport],
	KindTrimHistory:  decodeAs[TrimHistory],
	KindSetConfig:    decodeAs[SetConfig],
}

func decodeAs[C Command](body []byte) (Command, error) {
	var c C
	if err := decodeStrict(body, &c); err != nil {
		return nil, err
	}
	return c, nil
}

var errTrailing = errors.New("something follows the value")

// decodeStrict decodes one JSON value with no unknown fields and nothing after it.
func decodeStrict(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errTrailing
	}
	return nil
}
