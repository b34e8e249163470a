package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/rota-hpc/rota/controld/wire"
)

// envelope is the form of an entry in the log.
type envelope struct {
	Kind Kind            `json:"kind"`
	At   Instant         `json:"at"`
	Wall UnixMS          `json:"wall"`
	Body json.RawMessage `json:"body"`
}

// Encode returns an entry as one line of JSON without the line's end.
func Encode(e Entry) ([]byte, error) { return AppendEntry(make([]byte, 0, sizeOf(e.Command)), e) }

// AppendEntry appends to b what Encode returns.
func AppendEntry(b []byte, e Entry) ([]byte, error) {
	if !known(e.Command) {
		return nil, fmt.Errorf("encode entry: %w", &UnknownKindError{Kind: kindOf(e.Command)})
	}
	b, err := appendBody(begin(b, e.Command.Kind(), e.Stamp), e.Command)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", e.Command.Kind(), err)
	}
	return append(b, '}'), nil
}

// appendBody writes a command as json.Marshal does. Submissions come by the ten thousand each second, so they go the quick way.
func appendBody(b []byte, c Command) ([]byte, error) {
	if c, ok := c.(SubmitJobs); ok {
		return submissions.Append(b, &c)
	}
	body, err := json.Marshal(c)
	return append(b, body...), err
}

var submissions = wire.For[SubmitJobs]()

// sizeOf guesses how long the text of a command will be.
func sizeOf(c Command) int {
	const job, others = 640, 384
	if c, ok := c.(SubmitJobs); ok {
		return others + job*len(c.Jobs)
	}
	return others
}

// begin starts an envelope as json.Marshal would write it, up to its body. The body is most of the entry, so it is written in place.
func begin(b []byte, kind Kind, at Stamp) []byte {
	b = append(append(b, openKind...), kind...)
	b = strconv.AppendInt(append(b, openAt...), int64(at.At), 10)
	b = strconv.AppendInt(append(b, openWall...), int64(at.Wall), 10)
	return append(b, openBody...)
}

// The parts of an envelope between its values.
const (
	openKind = `{"kind":"`
	openAt   = `","at":`
	openWall = `,"wall":`
	openBody = `,"body":`
)

// unseal takes an envelope apart. It reports false for an envelope written in another way, which json can read all the same. What it calls
// the body is checked by whoever decodes it.
func unseal(data []byte) (e envelope, ok bool) {
	rest, ok := bytes.CutPrefix(data, []byte(openKind))
	kind, rest, ok1 := bytes.Cut(rest, []byte(openAt))
	at, rest, ok2 := bytes.Cut(rest, []byte(openWall))
	wall, rest, ok3 := bytes.Cut(rest, []byte(openBody))
	body, ok4 := bytes.CutSuffix(rest, []byte("}"))
	if !ok || !ok1 || !ok2 || !ok3 || !ok4 || bytes.ContainsAny(kind, `"\\`) {
		return envelope{}, false
	}
	a, err1 := strconv.ParseInt(string(at), 10, 64)
	w, err2 := strconv.ParseInt(string(wall), 10, 64)
	if err1 != nil || err2 != nil || !bytes.Equal(strconv.AppendInt(nil, a, 10), at) || !bytes.Equal(strconv.AppendInt(nil, w, 10), wall) {
		return envelope{}, false
	}
	return envelope{Kind: Kind(kind), At: Instant(a), Wall: UnixMS(w), Body: body}, true
}

// Decode is the reverse of Encode. It is strict: an unknown kind is an *UnknownKindError, and fields that this version does not
// know are an error too, since to leave them out would be to apply another command than the other replicas do.
func Decode(data []byte) (Entry, error) {
	env, ok := unseal(data)
	if !ok {
		if err := decodeStrict(data, &env); err != nil {
			return Entry{}, fmt.Errorf("decode entry: %w", err)
		}
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
	KindSubmitJobs:   decodeQuickly(submissions),
	KindControlJobs:  decodeAs[ControlJobs],
	KindRegisterNode: decodeAs[RegisterNode],
	KindSetNodeState: decodeAs[SetNodeState],
	KindCommitPlan:   decodeAs[CommitPlan],
	KindNodeReport:   decodeAs[NodeReport],
	KindTrimHistory:  decodeAs[TrimHistory],
	KindSetConfig:    decodeAs[SetConfig],
	KindUpdateJobs:   decodeAs[UpdateJobs],
}

func decodeAs[C Command](body []byte) (Command, error) {
	var c C
	if err := decodeStrict(body, &c); err != nil {
		return nil, err
	}
	return c, nil
}

// decodeQuickly decodes as decodeAs does, most of the time without it.
func decodeQuickly[C Command](quick *wire.Codec[C]) func([]byte) (Command, error) {
	return func(body []byte) (Command, error) {
		var c C
		if quick.Read(body, &c) {
			return c, nil
		}
		return decodeAs[C](body)
	}
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
