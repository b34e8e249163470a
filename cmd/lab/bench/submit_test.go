package main

import (
	"os"
	"testing"
	"time"
)

func TestProcessorTimeGrows(t *testing.T) {
	before, err := processorTime([]int{os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for n, deadline := 0, time.Now().Add(time.Minute); after < before+50*time.Millisecond; n++ {
		if after, err = processorTime([]int{os.Getpid()}); err != nil || time.Now().After(deadline) {
			t.Fatalf("%v after %d readings, %v before: %v", after, n, before, err)
		}
	}
	if _, err := processorTime([]int{1 << 30}); err == nil {
		t.Error("a process that is not there has used processor time")
	}
}
