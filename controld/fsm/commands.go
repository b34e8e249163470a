package fsm

import (
	"errors"
	"fmt"

	"github.com/rota-hpc/rota/controld/model"
	"github.com/rota-hpc/rota/controld/model/generation"
	"github.com/rota-hpc/rota/controld/model/trust"
	"github.com/rota-hpc/rota/controld/model/witness"
)

// Kind names a command and its version. From the first release on a kind is never reused and keeps
// its meaning.
type Kind string

// Command is a change of the state that the log holds. Each command has a file of its own, and a
// row in the table.
type Command interface {
	Kind() Kind

	// apply carries the command out. The error is a refusal, after which the state is as it was.
	apply(m *Machine) (any, error)
}

// Entry is a command with the leader's stamp: one proposal.
type Entry struct {
	model.Stamp
	Command Command
}

// commandTable lists every kind of command. Apply carries out the result of a kind's decoder.
var commandTable = []row{
	command[SubmitJobs](generation.ErrUnsettled, model.ErrKeyReused, model.ErrNoQueue, ErrForgotten, model.ErrNotOwner,
		model.ErrNoJob, anySpec, anyLimit, anyJob),
	command[ControlJobs](generation.ErrUnsettled, model.ErrBadVerb, model.ErrNoJob, model.ErrNoTask, model.ErrWrongState,
		model.ErrHeldByAdmin, model.ErrStopping, model.ErrRunsOnce, anySpec, anyLimit),
	command[UpdateJobs](generation.ErrUnsettled, model.ErrNoJob, model.ErrWrongState, ErrNoLimit, ErrRaisesLimit, anySpec,
		anyLimit),
	command[RegisterNode](model.ErrBadInventory, model.ErrOtherMachine, anyInventory, anyLimit),
	command[SetNodeState](model.ErrNoNode, model.ErrOtherBoot, model.ErrBadNodeState),
	command[ConfirmDead](generation.ErrUnsettled, model.ErrNoNode, model.ErrNodeNotDown),
	command[CommitPlan](generation.ErrUnsettled, model.ErrBadAction, model.ErrNoJob, model.ErrWrongState,
		model.ErrNotEligible, model.ErrNoTask, model.ErrMaxParallel, model.ErrWrongPlaces, model.ErrPort, model.ErrNoNode,
		model.ErrOldAttempt, model.ErrBadCause, model.ErrStopping, model.ErrNotWanted, model.ErrLeaseRunning,
		model.ErrAwaitsNode,
		model.ErrBadClaim, model.ErrNoReservation, model.ErrNotPastDue, model.ErrPaused,
		model.ErrNotElastic, model.ErrBadSize, model.ErrCannotSuspend, model.ErrSwitching, model.ErrNotSuspended,
		model.ErrCannotPack, model.ErrNoProfile, model.ErrTriedBefore,
		model.ErrBadMove, model.ErrDoesNotMove, model.ErrResizing,
		anyFit, anyLimit),
	command[NodeReport](model.ErrNoNode, model.ErrOtherBoot),
	command[TrimHistory](),
	command[CreateAPIToken](trust.ErrBadToken, anyLimit),
	command[RevokeAPIToken](trust.ErrNoAPIToken),
	command[SetConfig](model.ErrBadConfig, model.ErrConfigChanged, model.ErrNoConfigVersion),
	command[FoundCluster](trust.ErrFounded),
	command[CreateJoinToken](anyLimit),
	command[UseJoinToken](trust.ErrNoToken, trust.ErrTokenExpired, trust.ErrTokenRole, trust.ErrTokenUsed),
	command[RevokeCertificates](anyLimit),
	command[ChooseWitnesses](witness.ErrChoice, model.ErrNoNode),
	command[NoteWitnesses](),
	command[DeclareLost](model.ErrNoNode, model.ErrOtherBoot, model.ErrNodeNotDown, witness.ErrChoice,
		model.ErrLeaseRunning),
	command[RaiseGeneration](generation.ErrGeneration),
	command[AcceptGeneration](generation.ErrGeneration, model.ErrNoNode, model.ErrOtherBoot),
	command[RotateGossipKey](trust.ErrKeyText, trust.ErrKeyChange),
	command[AdvanceGossipKey](trust.ErrKeyPhase),
	command[ReplaceAuthority](trust.ErrSuccession, trust.ErrAuthority),
	command[AdvanceAuthority](trust.ErrAuthorityPhase, trust.ErrKeyText, trust.ErrKeyChange),
	command[Steer](model.ErrBadSwitch, model.ErrStillPaused),
}

// Refusals that say more than one sentence, by their types.
var (
	anySpec      = new(model.SpecError)
	anyLimit     = new(model.LimitError)
	anyJob       = new(model.JobError)
	anyFit       = new(model.FitError)
	anyInventory = new(model.InventoryError)
)

// row is what the table says of one kind of command.
type row struct {
	kind     Kind
	decode   func(body []byte) (Command, error)
	refusals []error // each of them, or one of its type; those of single jobs, targets and actions included
}

func command[C Command](refusals ...error) row {
	var c C
	return row{kind: c.Kind(), decode: decodeAs[C], refusals: refusals}
}

// kinds is the table by kind.
var kinds = index(commandTable)

func index(table []row) map[Kind]*row {
	m := map[Kind]*row{}
	for i := range table {
		m[table[i].kind] = &table[i]
	}
	return m
}

// declared lists every kind that a file of this package has declared.
var declared []Kind

// newKind declares a kind of command.
func newKind(name string) Kind {
	declared = append(declared, Kind(name))
	return Kind(name)
}

func init() {
	if err := checkTable(declared, commandTable); err != nil {
		panic(err)
	}
}

// checkTable reports kinds that were declared and have no row, and those that have two.
func checkTable(declared []Kind, table []row) error {
	var errs []error
	rows := map[Kind]int{}
	for i := range table {
		rows[table[i].kind]++
	}
	for _, kind := range declared {
		if rows[kind] != 1 {
			errs = append(errs, fmt.Errorf("command kind %q has %d rows in the table of commands, not one", kind, rows[kind]))
		}
		delete(rows, kind)
	}
	for kind, n := range rows {
		errs = append(errs, fmt.Errorf("command kind %q is declared %d times less than it has rows", kind, n))
	}
	return errors.Join(errs...)
}

// checkKind returns an *UnknownKindError for a command that the table does not have.
func checkKind(c Command) error {
	if c == nil {
		return &UnknownKindError{}
	}
	if kinds[c.Kind()] == nil {
		return &UnknownKindError{Kind: c.Kind()}
	}
	return nil
}
