package api

import (
	"fmt"
	"testing"
)

// TestTaskNodes notices tasks that are taken to run elsewhere.
func TestTaskNodes(t *testing.T) {
	b := StepBegun{Nodes: []string{"a", "b", "a", "c", "a"}, Tasks: []int{2, 1, 1, 2, 1}, Cyclic: true}
	if got := fmt.Sprint(b.TaskNodes()); got != "[0 1 2 3 4 0 3]" {
		t.Errorf("in one group %s", got)
	}
	b.Parts = []int{2, 3}
	if got := fmt.Sprint(b.TaskNodes()); got != "[0 1 0 2 3 4 3]" {
		t.Errorf("in two groups %s", got)
	}
	b.Cyclic = false
	if got := fmt.Sprint(b.TaskNodes()); got != "[0 0 1 2 3 3 4]" {
		t.Errorf("block by block %s", got)
	}
	b.Parts = []int{7, -1} // which no node says
	if got := fmt.Sprint(b.TaskNodes()); got != "[0 0 1 2 3 3 4]" {
		t.Errorf("with parts that are not there %s", got)
	}
}
