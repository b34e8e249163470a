package rotatest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/rota-hpc/rota/controld/api"
)

// WhenAsked answers n times with first, and then with then.
func WhenAsked(n int, first, then any) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		n--
		v := first
		if n < 0 {
			v = then
		}
		_ = json.NewEncoder(w).Encode(v)
	}
}

// Cut breaks the connection off before it answers, as a controller does that is killed. Whether it
// did what it was asked is not known.
func Cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// PagesOf serves a list with one item per page.
func PagesOf(jobs []api.Job) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("page"))
		page := List("JobList", jobs[n])
		if n+1 < len(jobs) {
			page.Next = strconv.Itoa(n + 1)
		}
		_ = json.NewEncoder(w).Encode(page)
	}
}

// StreamOf serves a list as a controller streams it: a first line, a line per item, and a last
// line.
func StreamOf(jobs []api.Job) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("stream") != "true" {
			_ = json.NewEncoder(w).Encode(List("JobList", jobs...))
			return
		}
		fmt.Fprintf(w, `{"apiVersion":"v1","kind":"JobList","index":42,"delta":false,"items":[`+"\n")
		for i := range jobs {
			if i > 0 {
				fmt.Fprint(w, ",\n")
			}
			b, _ := json.Marshal(&jobs[i])
			_, _ = w.Write(b)
		}
		fmt.Fprint(w, "\n]}\n")
	}
}

// At returns a time in RFC 3339.
func At(text string) *api.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	return &api.Time{Time: t}
}

// List returns a list as the API has it.
func List[T any](kind string, items ...T) api.List[T] {
	return api.List[T]{APIVersion: api.Version, Kind: kind, Index: 42, Items: items}
}
