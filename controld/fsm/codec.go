package fsm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/rota-hpc/rota/controld/model"
)

// envelope is the form of an entry in the log. Its body is a command, or the command's stored form,
// when it is written, and JSON when it is read.
type envelope[Body any] struct {
	Kind Kind          `json:"kind"`
	At   model.Instant `json:"at"`
	Wall model.UnixMS  `json:"wall"`
	Body Body          `json:"body"`
}

// storedApart is a command whose form in the log is another type.
type storedApart interface{ stored() any }

// Encode returns an entry as one line of JSON without the line's end.
func Encode(e Entry) ([]byte, error) {
	if err := checkKind(e.Command); err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	body := any(e.Command)
	if c, ok := body.(storedApart); ok {
		body = c.stored() // its MarshalJSON would make the encoder read the text once more
	}
	b, err := json.Marshal(envelope[any]{Kind: e.Command.Kind(), At: e.At, Wall: e.Wall, Body: body})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Command.Kind(), err)
	}
	return b, nil
}

// Decode is the reverse of Encode. It is strict: an unknown kind is an *UnknownKindError, and an
// unknown field is an error too. A replica that left one out would apply another command than the
// other replicas do.
func Decode(data []byte) (Entry, error) {
	var env envelope[json.RawMessage]
	if err := decodeStrict(data, &env); err != nil {
		return Entry{}, fmt.Errorf("decode entry: %w", err)
	}
	row := kinds[env.Kind]
	if row == nil {
		return Entry{}, fmt.Errorf("decode entry: %w", &UnknownKindError{Kind: env.Kind})
	}
	c, err := row.decode(env.Body)
	if err != nil {
		return Entry{}, fmt.Errorf("decode %s: %w", env.Kind, err)
	}
	return Entry{Stamp: model.Stamp{At: env.At, Wall: env.Wall}, Command: c}, nil
}

func decodeAs[C Command](body []byte) (Command, error) {
	var c C
	var err error
	if u, ok := any(&c).(json.Unmarshaler); ok {
		err = u.UnmarshalJSON(body) // directly: the decoder would read the text once more
	} else {
		err = decodeStrict(body, &c)
	}
	if err != nil {
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
