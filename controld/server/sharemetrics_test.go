package server

import (
	"fmt"
	"testing"

	"github.com/rota-hpc/rota/controld/sched/fairshare"
)

// TestShareFiguresAreBounded: the accounts that hold or deserve most have figures of their own, and
// accounts within others do not count twice.
func TestShareFiguresAreBounded(t *testing.T) {
	list := []fairshare.Share{
		{Account: "a", Alloc: 10, Deserved: 0, Fair: 5}, {Account: "b", Deserved: 400, Fair: 300},
		{Account: "c", Parent: "b", Deserved: 7}, {Account: "d", Alloc: 500, Fair: 400}, {Account: "e", Alloc: 20, Fair: 6},
	}
	text := ""
	for _, s := range bounded(list, 3) {
		text += fmt.Sprintf("%s %d %d %d; ", s.Account, s.Alloc, s.Deserved, s.Fair)
	}
	if want := "(others) 30 0 11; b 0 400 300; d 500 0 400; "; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}
