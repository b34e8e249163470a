package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/rota-hpc/rota/controld/api"
)

// pagesOf serves a list one item a page.
func pagesOf(jobs []api.Job) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Query().Get("page"))
		page := list("JobList", jobs[n])
		if n+1 < len(jobs) {
			page.Next = strconv.Itoa(n + 1)
		}
		_ = json.NewEncoder(w).Encode(page)
	}
}

// streamOf serves a list as a controller streams it: a line for each item between a first and a last one.
func streamOf(jobs []api.Job) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("stream") != "true" {
			_ = json.NewEncoder(w).Encode(list("JobList", jobs...))
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
