package wire

import (
	"bytes"
	"encoding/json"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"
)

type word string

type inner struct {
	A int    `json:"a"`
	B string `json:"b,omitempty"`
}

type hidden struct {
	Up   uint32 `json:"up"`
	Name string `json:"name"` // hidden by the outer one
}

// everything has a field of every kind that a Codec meets.
type everything struct {
	hidden
	Name   string            `json:"name"`
	Word   word              `json:"word,omitempty"`
	Yes    bool              `json:"yes,omitempty"`
	Int    int               `json:"int,omitempty"`
	Long   int64             `json:"long"`
	Small  int32             `json:"small,omitempty"`
	Big    uint64            `json:"big,omitempty"`
	Float  float64           `json:"float,omitempty"`
	Ptr    *inner            `json:"ptr,omitempty"`
	Bool   *bool             `json:"bool,omitempty"`
	Zero   inner             `json:"zero,omitzero"`
	Both   inner             `json:"both,omitempty"`
	When   time.Time         `json:"when,omitzero"`
	List   []inner           `json:"list"`
	Ptrs   *[]*inner         `json:"ptrs,omitempty"`
	Words  []word            `json:"words,omitempty"`
	Texts  []string          `json:"texts"`
	Map    map[string]string `json:"map,omitempty"`
	Inners map[string]inner  `json:"inners,omitempty"`
	Raw    json.RawMessage   `json:"raw,omitempty"`
	Bytes  []byte            `json:"bytes,omitempty"`
	Any    any               `json:"any,omitempty"`
	Array  [2]int            `json:"array"`
	Skip   string            `json:"-"`
	Plain  int
	secret int
}

var codec = For[everything]()

// slow reads as encoding/json does, strictly.
func slow(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return io.ErrUnexpectedEOF
	}
	return nil
}

// agree fails the test unless Read means what encoding/json means, and Append writes what it writes.
func agree(t *testing.T, data []byte) (sure bool) {
	t.Helper()
	var fast, want everything
	err := slow(data, &want)
	sure = codec.Read(data, &fast)
	if !sure {
		if !reflect.DeepEqual(fast, everything{}) {
			t.Errorf("%q: it gave up and left %+v", data, fast)
		}
	} else if err != nil || !reflect.DeepEqual(fast, want) {
		t.Errorf("%q: read as\n%+v, encoding/json reads\n%+v, %v", data, fast, want, err)
	}
	if err != nil {
		return sure
	}
	text, err1 := codec.Append(nil, &want)
	std, err2 := json.Marshal(&want)
	if (err1 == nil) != (err2 == nil) || err1 == nil && string(text) != string(std) {
		t.Errorf("wrote\n%s (%v), encoding/json writes\n%s (%v)", text, err1, std, err2)
	}
	return sure
}

func TestReadsWhatItIsSureOf(t *testing.T) {
	for _, s := range sure {
		if !agree(t, []byte(s)) {
			t.Errorf("%s: was left to encoding/json", s)
		}
	}
}

var sure = []string{
	`{}`, `null`, " {\n} ", `{"name":"a","word":"b","yes":true,"int":-5,"long":123456789012345678,"big":7,"up":4294967295}`,
	`{"name":"a\nb\t\"\\ \u003c\u003e\u0026 ü < \u00fc \ud83d\ude00 \/"}`, `{"float":1e3,"small":5,"when":"2026-01-02T03:04:05Z"}`,
	`{"ptr":{"a":1,"b":"x"},"bool":false,"zero":{"a":0},"both":{"a":2}}`, `{"ptr":null,"list":null,"name":null,"int":null,"yes":null}`,
	`{"list":[],"texts":[],"ptrs":[],"words":[],"map":{},"inners":{},"raw":null}`,
	`{"list":[{"a":1},{"a":2},null,{"a":4}],"ptrs":[{"a":1},null],"words":["x","y"],"texts":["1",null,"3","4","5","6","7","8","9"]}`,
	`{"map":{"b":"1","a":null,"ü\n":"x"},"inners":{"z":{"a":1}},"raw":{"x": [1 , "]"]},"bytes":"aGk=","any":[1,{"a":"}"}],"array":[1,2]}`,
	`{"name":"` + "\xff" + `"}`, `{ "Plain" : 3 , "name" : "spaces" }`, `{"raw":3}`,
}

func TestLeavesTheRest(t *testing.T) {
	for _, s := range []string{
		``, `{`, `[]`, `{"name":"a"} x`, `{"name":"a"}{}`, `{"nane":"a"}`, `{"NAME":"a"}`, `{"name":"a","name":"b"}`, `{"int":1.0}`, `{"int":1e2}`,
		`{"int":01}`, `{"int":-}`, `{"long":9223372036854775808}`, `{"up":4294967296}`, `{"up":-1}`, `{"name":"a` + "\n" + `"}`,
		`{"name":5}`, `{"yes":tru}`, `{"list":[{"a":1},]}`, `{"list":[1]}`, `{,}`, `{"name":"a",}`, `{"inners":{"z":{"c":1}}}`, `{"raw":[}`, `{"raw":}`,
		`{"name":"\x"}`, `{"na\u006de":"a"}`, `{"ptr":{"c":1}}`, `{"map":{"a":1}}`, `{"array":[1,2,3]`, `{"Skip":"x"}`, `{"-":"x"}`, `{"secret":1}`,
		`{"name":"unfinished`, `{"name" "a"}`, `{"hidden":{}}`,
	} {
		if agree(t, []byte(s)) {
			t.Errorf("%q: it was sure", s)
		}
	}
}

func TestWrites(t *testing.T) {
	yes := true
	for _, v := range []everything{
		{},
		{hidden: hidden{Up: 7, Name: "hidden"}, Name: "<a>&\u2028\xff\x01\b", Small: -3, Skip: "s", secret: 1},
		{Ptrs: &[]*inner{nil, {A: 1}}, Bool: &yes, Map: map[string]string{}, Any: map[string]any{"x": []int{1}}, Raw: json.RawMessage(`{ "a" : "<" }`)},
		{Words: []word{}, List: []inner{}, Zero: inner{A: 1}, When: time.Unix(1, 5).UTC(), Bytes: []byte("hi"), Float: 1e21},
		{Raw: json.RawMessage(`{`)}, {Any: func() {}},
	} {
		text, err1 := codec.Append([]byte("before"), &v)
		std, err2 := json.Marshal(&v)
		if (err1 == nil) != (err2 == nil) || err1 == nil && string(text) != "before"+string(std) {
			t.Errorf("wrote\n%s (%v), encoding/json writes\n%s (%v)", text, err1, std, err2)
		}
	}
}

type tree struct {
	Kids []tree `json:"kids,omitempty"`
	N    int    `json:"n"`
}

type chain struct {
	Next *chain `json:"next,omitempty"`
	N    int    `json:"n"`
}

// TestTypesThatPointToThemselves are read as far as they go.
func TestTypesThatPointToThemselves(t *testing.T) {
	var fast, want chain
	text := []byte(`{"next":{"next":{"n":3},"n":2},"n":1}`)
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	c := For[chain]()
	if !c.Read(text, &fast) || !reflect.DeepEqual(fast, want) {
		t.Errorf("read as %+v", fast)
	}
	if c.Read([]byte(`{"next":{"next":{"m":3}}}`), &fast) {
		t.Error("an unknown field far in was read")
	}
}

type quotedNumber struct {
	N int `json:"n,string"`
}

func TestTypesThatAreLeftToEncodingJSON(t *testing.T) {
	var v tree
	c := For[tree]()
	if c.Read([]byte(`{"n":1}`), &v) {
		t.Error("a type that contains itself was read")
	}
	if text, err := c.Append(nil, &tree{Kids: []tree{{N: 1}}}); err != nil || string(text) != `{"kids":[{"n":1}],"n":0}` {
		t.Errorf("%s, %v", text, err)
	}
	q := For[quotedNumber]()
	if text, err := q.Append(nil, &quotedNumber{5}); err != nil || string(text) != `{"n":"5"}` || q.Read(text, new(quotedNumber)) {
		t.Errorf("%s, %v", text, err)
	}
}

// TestMutations changes texts at random: whatever Read is sure of, encoding/json reads alike.
func TestMutations(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const bytesOfJSON = `{}[]",:\ntfu0123.eE+- <` + "\x00\xff\xc3\xbc"
	certain := 0
	for range 30_000 {
		b := []byte(sure[rng.IntN(len(sure))])
		for range rng.IntN(4) {
			i := rng.IntN(len(b) + 1)
			switch c := bytesOfJSON[rng.IntN(len(bytesOfJSON))]; rng.IntN(3) {
			case 0:
				b = append(b[:i], append([]byte{c}, b[i:]...)...)
			case 1:
				b = append(b[:i], b[min(i+1, len(b)):]...)
			default:
				if i < len(b) {
					b[i] = c
				}
			}
		}
		if agree(t, b) {
			certain++
		}
		if t.Failed() {
			return
		}
	}
	if certain < 5000 {
		t.Errorf("only %d of 30,000 were read", certain)
	}
}

func FuzzRead(f *testing.F) {
	for _, s := range sure {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { agree(t, data) })
}

func TestCommonStringsAreKeptOnce(t *testing.T) {
	in := new(input)
	in.data = []byte(`"workdir" "workdir"`)
	var a, b string
	if !in.text(&a) || !in.text(&b) || a != "workdir" || !same(a, b) {
		t.Errorf("%q and %q", a, b)
	}
	in.data, in.at = []byte(`"`+strings.Repeat("x", longestShared+1)+`"`), 0
	if !in.text(&a) || len(a) != longestShared+1 {
		t.Errorf("%q", a)
	}
}

func same(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
