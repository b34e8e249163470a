package consensus

import (
	"testing"
	"time"
)

// TestAnAnswerToAnEarlierRequestConfirmsNothing notices that answers count although their requests
// were begun before the question: a leader that was stopped would take what its followers said
// before they elected another for their word of now.
func TestAnAnswerToAnEarlierRequestConfirmsNothing(t *testing.T) {
	members := []Member{{Name: "n1"}, {Name: "n2"}, {Name: "n3"}}
	c := newConfirmations()
	asked := time.Now()
	count := func(want int) <-chan struct{} {
		t.Helper()
		got, news := c.since(asked, members)
		if got != want {
			t.Fatalf("%d members have confirmed, want %d", got, want)
		}
		return news
	}
	news := count(0)
	c.note("n2", asked.Add(-time.Nanosecond))
	select {
	case <-news:
	default:
		t.Error("an answer is not told to those that wait")
	}
	count(0)
	c.note("n4", asked) // not a member any more
	count(0)
	c.note("n2", asked)
	count(1)
	c.note("n2", asked.Add(-time.Second)) // an answer that was overtaken
	count(1)
	c.note("n3", asked.Add(time.Second))
	count(2)
}
