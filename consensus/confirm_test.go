package consensus

import (
	"testing"
	"time"
)

// TestAnAnswerToAnEarlierRequestConfirmsNothing notices that answers count although their requests
// were begun before the question: a leader that was stopped would take what its followers said
// before they elected another for their word of now.
func TestAnAnswerToAnEarlierRequestConfirmsNothing(t *testing.T) {
	members := []Member{{Name: "n1", Log: "a"}, {Name: "n2", Log: "b"}, {Name: "n3", Log: "c"}}
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
	c.note("n2#b", asked.Add(-time.Nanosecond))
	select {
	case <-news:
	default:
		t.Error("an answer is not told to those that wait")
	}
	count(0)
	c.note("n2#a", asked) // the log that n2 has lost
	count(0)
	c.note("n2#b", asked)
	count(1)
	c.note("n2#b", asked.Add(-time.Second)) // an answer that was overtaken
	count(1)
	c.note("n3#c", asked.Add(time.Second))
	count(2)
}

func TestAMajority(t *testing.T) {
	for of, least := range []int{1, 1, 2, 2, 3, 3} { // of no members there is no majority
		if isMajority(least-1, of) || !isMajority(least, of) {
			t.Errorf("of %d members %d: %t, %d: %t", of, least-1, isMajority(least-1, of), least, isMajority(least, of))
		}
	}
}
