package main

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/rota-hpc/rota/controld/api"
)

// pagesOf serves one job a page.
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
