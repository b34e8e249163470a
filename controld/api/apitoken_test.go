package api

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTextsOfTokens: the text of a token may have white space around it. White space within it, or
// another form, is an error, and the message does not repeat the text.
func TestTextsOfTokens(t *testing.T) {
	print := sha256.Sum256([]byte("authority"))
	token := NewBearerToken(print[:])
	text := token.Text()
	for _, around := range []string{text, " " + text, text + "\n", "\t" + text + "\r\n"} {
		got, err := ParseBearerToken(around)
		if err != nil || got.Text() != text || got.Digest() != token.Digest() || string(got.Fingerprint) != string(print[:]) {
			t.Errorf("%q: %v", around, err)
		}
	}
	parts := strings.Split(text, ".")
	join := func(change func(p []string)) string {
		p := strings.Split(text, ".")
		change(p)
		return strings.Join(p, ".")
	}
	for text, want := range map[string]error{
		text[:20] + " " + text[20:]:  ErrTokenSpace,
		text[:40] + "\n" + text[40:]: ErrTokenSpace,
		"":                           ErrTokenText,
		"rota-api":                   ErrTokenText,
		text + ".more":               ErrTokenText,
		text[:len(text)-1]:           ErrTokenText,
		join(func(p []string) { p[0] = "rota-join" }):           ErrTokenText,
		join(func(p []string) { p[1] = "../../../etc" }):        ErrTokenText,
		join(func(p []string) { p[1] = p[1] + "00" }):           ErrTokenText,
		join(func(p []string) { p[2] = "" }):                    ErrTokenText,
		join(func(p []string) { p[2] = p[2] + "AAAA" }):         ErrTokenText,
		join(func(p []string) { p[3] = "AAAA" }):                ErrTokenText,
		join(func(p []string) { p[2] = "*" + p[2][1:] }):        ErrTokenText,
		join(func(p []string) { p[2] = p[2][:42] + "=" }):       ErrTokenText,
		join(func(p []string) { p[1] = strings.ToUpper("zz") }): ErrTokenText,
	} {
		if _, err := ParseBearerToken(text); !errors.Is(err, want) || strings.Contains(fmt.Sprint(err), parts[2][:10]) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%s", "%#v"} {
		if got := fmt.Sprintf(verb, token); got != "API token "+token.ID {
			t.Errorf("%s of a token is %q, which does not say which", verb, got)
		}
	}
	for _, verb := range []string{"%v", "%+v", "%s", "%#v", "%q"} {
		for _, value := range []any{token, &token, Options{}.WithToken(token)} {
			if strings.Contains(fmt.Sprintf(verb, value), parts[2]) {
				t.Errorf("%s of a %T has the secret", verb, value)
			}
		}
	}
}

// TestAClientKeepsItsTokenFromOthers: without TLS, a token goes to this machine only. It never goes
// to a machine outside the token's cluster, such as one that has taken a controller's address.
func TestAClientKeepsItsTokenFromOthers(t *testing.T) {
	var got []string
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		fmt.Fprint(w, "{}")
	})
	plain, secure := httptest.NewServer(answer), httptest.NewTLSServer(answer)
	defer plain.Close()
	defer secure.Close()
	other := sha256.Sum256([]byte("authority"))
	token := NewBearerToken(other[:])
	ask := func(addr string, token BearerToken) error {
		c, err := DialWith(addr, Options{}.WithToken(token))
		if err != nil {
			return err
		}
		defer c.Close()
		_, _, err = c.Cluster(t.Context())
		return err
	}
	if err := ask("http://controller.example:7070", token); err == nil || strings.Contains(err.Error(), token.Text()) {
		t.Errorf("a token without TLS to another machine: %v", err)
	}
	if err := ask(secure.URL, token); err == nil || len(got) > 0 {
		t.Errorf("a token to a stranger: %v, %d requests", err, len(got))
	}
	if err := ask(plain.URL, NewBearerToken(nil)); err != nil || len(got) != 1 ||
		!strings.HasPrefix(got[0], "Bearer rota-api.") {
		t.Errorf("a token to this machine: %v, %q", err, got)
	}
}
