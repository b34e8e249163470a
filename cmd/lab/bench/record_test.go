package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestFirstAnswers(t *testing.T) {
	zero := time.Now()
	at := func(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }
	sub := func(sent, answered int) submission { return submission{sent: at(sent), answered: at(answered)} }
	for _, test := range []struct {
		what    string
		clients [][]submission
		want    []int
	}{
		{"no submissions", [][]submission{nil, nil}, nil},
		{"all before", [][]submission{{sub(0, 1), sub(1, 2)}}, nil},
		{"one under way does not count", [][]submission{{sub(90, 500), sub(501, 510), sub(511, 512)}}, []int{510}},
		{"sent at the instant counts", [][]submission{{sub(0, 1), sub(100, 101)}}, []int{101}},
		{"in order of time", [][]submission{{sub(120, 400)}, {sub(200, 300), sub(301, 302)}}, []int{300, 400}},
		{"one client has no answer", [][]submission{{sub(120, 400)}, {sub(20, 300)}}, []int{400}},
	} {
		var want []time.Time
		for _, ms := range test.want {
			want = append(want, at(ms))
		}
		if got := firstAnswers(test.clients, at(100)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", test.what, got, want)
		}
	}
}

func TestClientsSubmitWithoutPauseUntilTheBodyReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRecord(2)
		submit := func(ctx context.Context, client int) (string, error) {
			return fmt.Sprint(client), wait(ctx, time.Duration(client+1)*time.Second)
		}
		var answers []time.Time
		begin := time.Now()
		err := r.during(t.Context(), submit, func(ctx context.Context) (err error) {
			if err := wait(ctx, 1500*time.Millisecond); err != nil {
				return err
			}
			answers, err = r.answersAfter(ctx, time.Now())
			return err
		})
		if err != nil || len(answers) != 2 {
			t.Fatalf("%v, %v", answers, err)
		}
		// The first client sends at 2 s, the second one's submission of 0 s is under way until 2 s.
		if first, last := answers[0].Sub(begin), answers[1].Sub(begin); first != 3*time.Second || last != 4*time.Second {
			t.Errorf("answers after %v and %v", first, last)
		}
		if n := len(r.all()); n < 6 {
			t.Errorf("%d submissions in 4 s", n)
		}
	})
}

func TestAClientThatFailsEndsTheBody(t *testing.T) {
	r := newRecord(2)
	refused := errors.New("refused")
	submit := func(_ context.Context, client int) (string, error) {
		if client == 1 {
			return "", refused
		}
		return "1", nil
	}
	err := r.during(t.Context(), submit, func(ctx context.Context) error {
		_, err := r.answersAfter(ctx, time.Now().Add(time.Hour))
		return err
	})
	if !errors.Is(err, refused) {
		t.Errorf("got %v", err)
	}
}
