package api

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestAWorkerThatCannotBeReadHoldsUpNoOther reads answers with a worker of a later version among others.
func TestAWorkerThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	const good = `{"job":1,"attempt":1,"worker":0,"released":true}`
	for _, c := range []struct{ row, unread string }{
		{`{"job":2,"attempt":3,"worker":4,"spec":7}`, "2.3.4 false"},
		{`{"job":2,"attempt":3,"worker":4,"spec":7,"stop":{"cause":"cancelled","kill_at":9}}`, "2.3.4 true"},
		{`{"job":2,"attempt":3,"worker":4,"stop":7}`, "2.3.4 false"},
		{`{"job":2,"attempt":3,"worker":4,"spec":{"on_node_lost":"of a later version"}}`, "2.3.4 false"},
	} {
		var n NodeAllocs
		text := fmt.Sprintf(`{"index":5,"now":6,"lease_ms":7,"allocs":[%s,%s,%s]}`, good, c.row, good)
		if err := json.Unmarshal([]byte(text), &n); err != nil {
			t.Errorf("%s: %v", c.row, err)
			continue
		}
		if n.Index != 5 || n.Now != 6 || n.LeaseMS != 7 || len(n.Allocs) != 2 || !n.Allocs[1].Released || len(n.Unread) != 1 {
			t.Errorf("%s: %+v", c.row, n)
			continue
		}
		u := n.Unread[0]
		if got := fmt.Sprintf("%d.%d.%d %t", u.Job, u.Attempt, u.Worker, u.Stop != nil); got != c.unread || u.Err == nil {
			t.Errorf("%s: unread is %s, %v", c.row, got, u.Err)
		}
	}
	var n NodeAllocs
	if err := json.Unmarshal([]byte(`{"allocs":[{"spec":7}]}`), &n); err == nil {
		t.Error("an answer with a worker without an id is taken")
	}
}
