package machine

import (
	"reflect"
	"testing"
)

func TestCores(t *testing.T) {
	c := NewCores([][]int{{0, 1, 2, 3}, {4, 5, 6, 7}})
	steps := []struct {
		n, near int
		want    []int
	}{
		{1, -1, []int{0}},
		{1, -1, []int{1}},          // best fit: the node that is in use already
		{4, -1, []int{4, 5, 6, 7}}, // whole on one node
		{3, -1, nil},
		{1, 1, []int{2}}, // none left near its GPU
		{0, -1, nil},
	}
	for _, s := range steps {
		if got := c.Take(s.n, s.near); !reflect.DeepEqual(got, s.want) {
			t.Fatalf("%d near %d: got %v, want %v", s.n, s.near, got, s.want)
		}
	}
	c.Release([]int{4, 5})
	if got := c.Take(1, 1); !reflect.DeepEqual(got, []int{4}) {
		t.Fatalf("near its GPU: got %v", got)
	}
	if got := c.Take(2, 1); !reflect.DeepEqual(got, []int{3, 5}) {
		t.Fatalf("across nodes: got %v", got)
	}
	if got := firstCores([][]int{{0, 1}, {2, 3}}, 3); !reflect.DeepEqual(got, [][]int{{0, 1}, {2}}) {
		t.Fatalf("got %v", got)
	}
}

// TestCoresOfAnEarlierDaemon notices cores of running jobs that are handed out again after a node
// daemon was started anew.
func TestCoresOfAnEarlierDaemon(t *testing.T) {
	c := NewCores([][]int{{0, 1, 2, 3}})
	c.MarkUsed([]int{0, 2})
	if got := c.Take(3, -1); got != nil {
		t.Errorf("of two free cores %v were taken", got)
	}
	if got := c.Take(2, -1); !reflect.DeepEqual(got, []int{1, 3}) {
		t.Errorf("got %v", got)
	}
	c.Release([]int{2})
	if got := c.Take(1, 0); !reflect.DeepEqual(got, []int{2}) {
		t.Errorf("after a release got %v", got)
	}
}

func TestCPULists(t *testing.T) {
	for text, want := range map[string][]int{"0-3,8": {0, 1, 2, 3, 8}, "5": {5}, "": nil} {
		if got, err := parseCPUList(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "3-1", "-1", "1-", "0-99999999"} {
		if got, err := parseCPUList(text); err == nil {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

// TestCoresThatAreMarkedStayTaken notices cores of running jobs that are handed out again.
func TestCoresThatAreMarkedStayTaken(t *testing.T) {
	c := NewCores([][]int{{0, 1, 2}})
	c.MarkUsed([]int{0, 2})
	if got := c.Take(2, -1); got != nil {
		t.Errorf("got %v", got)
	}
	if got := c.Take(1, -1); !reflect.DeepEqual(got, []int{1}) {
		t.Errorf("got %v", got)
	}
	c.Release([]int{2})
	if got := c.Take(1, 0); !reflect.DeepEqual(got, []int{2}) {
		t.Errorf("got %v", got)
	}
}
