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

// TestAFailureIsHeldUntilTheMemberAnswers notices a request that fails before its member answers again,
// or that is held although no member answers or the node stops.
func TestAFailureIsHeldUntilTheMemberAnswers(t *testing.T) {
	c, stopped := newConfirmations(), make(chan struct{})
	since := time.Now()
	held := func() <-chan struct{} {
		done, since := make(chan struct{}), since
		go func() { defer close(done); c.untilAnswered("n2#b", since, stopped) }()
		return done
	}
	done := held()
	for i := range 5 { // another member answers, and one answer of this one was to an earlier request
		c.note("n3#c", since.Add(time.Duration(i)*time.Second))
		c.note("n2#b", since)
		select {
		case <-done:
			t.Fatal("the failure is told before the member has answered")
		case <-time.After(5 * time.Millisecond):
		}
	}
	c.note("n2#b", since.Add(time.Nanosecond))
	<-done
	since = time.Now()
	<-held() // no member answers
	if took := time.Since(since); took < quietFor {
		t.Errorf("it was told after %v, although members had answered", took)
	}
	since = time.Now()
	done = held()
	close(stopped)
	if <-done; time.Since(since) >= quietFor {
		t.Error("a node that stops waits for its members")
	}
}

func TestAMajority(t *testing.T) {
	for of, least := range []int{1, 1, 2, 2, 3, 3} { // of no members there is no majority
		if isMajority(least-1, of) || !isMajority(least, of) {
			t.Errorf("of %d members %d: %t, %d: %t", of, least-1, isMajority(least-1, of), least, isMajority(least, of))
		}
	}
}
