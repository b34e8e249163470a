package cluster

import "testing"

func TestEnvelopesInOtherForms(t *testing.T) {
	const body = `{"up_to":3}`
	for text, fine := range map[string]bool{
		`{"kind":"trim-history/1","at":1,"wall":2,"body":` + body + `}`:         true,
		`{"at":1,"kind":"trim-history/1","body":` + body + `,"wall":2}`:         true,
		` { "kind":"trim-history/1","at":1,"wall":2,"body":` + body + `} `:      true,
		`{"kind":"trim-history/1","at":1,"wall":2,"body":` + body + `,"x":1}`:   false,
		`{"kind":"trim-history/1","at":1,"wall":2,"body":` + body + `}}`:        false,
		`{"kind":"trim-history/1","at":01,"wall":2,"body":` + body + `}`:        false,
		`{"kind":"trim-history/1","at":1.5,"wall":2,"body":` + body + `}`:       false,
		`{"kind":"trim-history/2","at":1,"wall":2,"body":` + body + `}`:         false,
		`{"kind":"trim-history/1","at":1,"wall":2,"body":` + body:               false,
		`{"kind":"trim-history/1","x":1,"at":1,"wall":2,"body":` + body + `}`:   false,
		`{"kind":"trim-history/1","at":1,"wall":2,"body":` + body + body + `}`:  false,
		`{"kind":"trim-history/1","at":1,"wall":2,"body":{"up_to":3,"more":1}}`: false,
	} {
		e, err := Decode([]byte(text))
		if (err == nil) != fine {
			t.Errorf("%s: %v", text, err)
		}
		if fine && (e.At != 1 || e.Wall != 2 || e.Command != Command(TrimHistory{UpTo: 3})) {
			t.Errorf("%s is read as %+v", text, e)
		}
	}
}
