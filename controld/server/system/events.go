package system

import (
	"github.com/rota-hpc/rota/controld/api"
	"github.com/rota-hpc/rota/controld/fsm/state"
	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/server/access"
	"github.com/rota-hpc/rota/controld/server/exchange"
	"github.com/rota-hpc/rota/controld/server/present"
)

// listEvents answers GET /v1/events, oldest first.
func listEvents(x *exchange.Exchange) (*api.List[api.Event], error) {
	list := exchange.NewList[api.Event]("EventList", x.View)
	events := x.View.Events(x.After)
	for i := range events {
		if len(list.Items) >= maxEvents && events[i].Index != events[i-1].Index {
			list.Index = events[i-1].Index // go on from here
			break
		}
		if e := present.Event(&events[i]); maySeeEvent(x, &e) {
			list.Items = append(list.Items, e)
		}
	}
	return list, nil
}

// maySeeEvent reports whether the caller may see an event. It takes the id of a hidden job out of
// an event that was for it, or that it had a part in.
func maySeeEvent(x *exchange.Exchange, e *api.Event) bool {
	if e.For != 0 && !maySeeEventOf(x, e.For) {
		e.For, e.ForUser, e.ForAccount = 0, "", ""
	}
	if e.With != 0 && !maySeeEventOf(x, e.With) {
		e.With = 0
	}
	if e.Type == string(model.EventEnded) && e.Text != "" && !maySee(x, access.PartDetails, e.Job) {
		e.Text = "" // as present.Redact has it
	}
	switch {
	case e.Job == 0:
		return x.May(access.PartNodes)
	case e.Type == string(model.EventClass): // as present.Redact has it
		return maySeeEventOf(x, e.Job) && maySee(x, access.PartDetails, e.Job)
	}
	return maySeeEventOf(x, e.Job)
}

// maySeeEventOf reports whether the caller may see events of a job.
func maySeeEventOf(x *exchange.Exchange, id model.JobID) bool {
	return maySee(x, access.PartEvents, id)
}

// maySee reports whether the caller may use a part of the route for a job with an id. Of a job that
// has left the state the owner is not asked.
func maySee(x *exchange.Exchange, p *access.Part, id model.JobID) bool {
	if x.May(p) {
		return true
	}
	j := x.View.Job(id)
	return j != nil && x.MayOn(p, j)
}

func eventsReady(x *exchange.Exchange) func(*state.View) bool {
	return func(v *state.View) bool { return len(v.Events(x.After)) > 0 }
}

const maxEvents = 1000 // items of one answer
