package system

import (
	"reflect"
	"testing"

	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/cluster"
	"github.com/rota-hpc/rota/jobspec"
)

// TestPagesOfEvents: a page ends with the first index behind so many events, and begins again there.
func TestPagesOfEvents(t *testing.T) {
	s := small(t)
	jobs := make([]*jobspec.Job, maxEvents+5)
	for i := range jobs {
		jobs[i] = &jobspec.Job{Name: "j", Groups: []jobspec.Group{{Name: "m", Count: 1, Tasks: []jobspec.Task{{Name: "m",
			Command: []string{"true"}, Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}
	}
	s.Do(fsm.SubmitJobs{Owner: model.Identity{UID: 7, User: "ann"}, Jobs: jobs})
	last := s.Submit(nil)
	page := func(after uint64) *api.List[api.Event] {
		x := s.Request("/v1/events", "", "", "")
		x.After = after
		got, err := listEvents(x)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first := page(0)
	if len(first.Items) < len(jobs) || first.Index == s.Replica.View().Index() ||
		first.Items[len(first.Items)-1].Job == last {
		t.Fatalf("%d events up to %d", len(first.Items), first.Index)
	}
	second := page(first.Index)
	if len(second.Items) != 1 || second.Items[0].Job != last || second.Index != s.Replica.View().Index() {
		t.Errorf("then %+v", second)
	}
}

// TestEventsOfHiddenJobs takes out what a caller may not see, and leaves the rest.
func TestEventsOfHiddenJobs(t *testing.T) {
	s := newSite(t)
	own := s.Gang
	bobs := s.Do(fsm.SubmitJobs{Owner: model.Identity{UID: 8, User: "bob"}, Jobs: []*jobspec.Job{{Name: "b",
		Groups: []jobspec.Group{{Name: "m", Count: 1, Tasks: []jobspec.Task{{Name: "m", Command: []string{"true"},
			Resources: jobspec.Resources{Cores: 1, Memory: jobspec.GiB}}}}}}}}).([]model.JobID)[0]
	s.Do(fsm.SetConfig{Config: func() cluster.Config {
		c := *s.Replica.View().Config()
		c.Private = []string{cluster.PrivateEvents}
		return c
	}()})
	for name, c := range map[string]struct {
		event api.Event
		seen  bool
		want  api.Event
	}{
		"its own":       {api.Event{Job: own}, true, api.Event{Job: own}},
		"another's":     {api.Event{Job: bobs}, false, api.Event{Job: bobs}},
		"a node's":      {api.Event{Node: "n1"}, false, api.Event{Node: "n1"}},
		"for another's": {api.Event{Job: own, For: bobs, ForUser: "bob", ForAccount: "a"}, true, api.Event{Job: own}},
		"for its own": {api.Event{Job: own, For: own, ForUser: "ann"}, true, api.Event{Job: own, For: own,
			ForUser: "ann"}},
		"with another's": {api.Event{Job: own, With: bobs}, true, api.Event{Job: own}},
		"with its own":   {api.Event{Job: own, With: own}, true, api.Event{Job: own, With: own}},
		"its end": {api.Event{Job: own, Type: "ended", Text: "x"}, true, api.Event{Job: own, Type: "ended",
			Text: "x"}},
		"another's end": {api.Event{Job: bobs, Type: "ended", Text: "x"}, false, api.Event{Job: bobs, Type: "ended"}},
		"another's other text": {api.Event{Job: bobs, Type: "held", Text: "x"}, false, api.Event{Job: bobs, Type: "held",
			Text: "x"}},
		"its class": {api.Event{Job: own, Type: "class"}, true, api.Event{Job: own, Type: "class"}},
	} {
		e := c.event
		x := s.Request("/v1/events", "", "", "")
		if seen := maySeeEvent(x, &e); seen != c.seen || !reflect.DeepEqual(e, c.want) {
			t.Errorf("%s: seen %t, %+v", name, seen, e)
		}
	}
	s.Do(fsm.SetConfig{Config: func() cluster.Config { c := *s.Replica.View().Config(); c.Private = nil; return c }()})
	x := s.Request("/v1/events", "", "", "")
	if !maySeeEvent(x, &api.Event{Job: bobs}) || !maySeeEvent(x, &api.Event{Node: "n1"}) ||
		maySeeEvent(x, &api.Event{Job: bobs, Type: string(model.EventClass)}) {
		t.Error("while events are not private a caller sees too few, or the class of another's job")
	}
}
