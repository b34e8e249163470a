package listing

import (
	"github.com/rota-hpc/rota/controld/api"
)

// JoinPages joins the pages of a list, up to limit items unless limit is 0. It reports whether
// there are more.
func JoinPages[T any](fetch func(page string) (*api.List[T], error), limit int) (_ *api.List[T], more bool, _ error) {
	first, err := fetch("")
	if err != nil {
		return nil, false, err
	}
	next := first.Next
	for next != "" && (limit == 0 || len(first.Items) < limit) {
		list, err := fetch(next)
		if err != nil {
			return nil, false, err
		}
		first.Items = append(first.Items, list.Items...)
		next = list.Next
	}
	first.Next, more = "", next != ""
	if limit > 0 && len(first.Items) > limit {
		first.Items, more = first.Items[:limit], true
	}
	if first.Items == nil {
		first.Items = []T{}
	}
	return first, more, nil
}
