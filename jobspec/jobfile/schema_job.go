package jobfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
)

var arraySchema = hclfile.For[jobspec.Array](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("indices").
			With("", "numbers and ranges of the elements, ascending, as in `0-99`, `0-98:2` or `1,4,7-9`"),
		hclfile.WrittenAs(hclfile.Any("matrix", "map(list)", setMatrix), func(a *jobspec.Array) any { return a.Matrix }).
			With("", "every combination of the values of some parameters, the last one changing fastest; each value is "+
				"available as `array.NAME` and `$ROTA_PARAM_NAME`"),
		hclfile.WrittenAs(hclfile.Text("file", "path", readParameters), paramsFile).As("rows").
			With("", "CSV file below the job file's directory: names of parameters in its first line, then a line for each "+
				"element; at most 1 MiB"),
		hclfile.Named("max_parallel").With("0: no limit", "how many elements may run at once"),
		hclfile.Named("max_failures").
			With("-1: any number", "when more elements than this have failed, no more are started"),
		hclfile.Named("order").With("index", "`index` or `random`: which elements start first"),
	},
	Blocks: []hclfile.Nested{
		hclfile.NamedBlock("stop", "stop", "keeps the best elements and cancels the others", stopSchema),
	},
})

var stopSchema = hclfile.For[jobspec.ArrayStop](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("metric").Must().With("", "metric that the elements report as progress"),
		hclfile.Named("goal").With("progress's, else min", "`min` or `max`: whether low or high values are better"),
		hclfile.Named("at_step").AtLeastOne().Must().
			With("", "step at which the elements are compared, once all elements have reported it"),
		hclfile.Named("keep").Must().With("", "`top 25%` or `top 4`: how many elements continue"),
	},
})

// setMatrix stores the axes in the order of the file.
func setMatrix(a *jobspec.Array, value decode.Value, _ hclfile.Source) error {
	entries, err := value.Entries()
	if err != nil {
		return err
	}
	a.Matrix = []jobspec.Axis{}
	for _, e := range entries {
		values, err := e.Value.Texts()
		if err != nil {
			return fmt.Errorf("%s is not a list of strings, numbers or true and false: write %s = [...]", e.Name, e.Name)
		}
		a.Matrix = append(a.Matrix, jobspec.Axis{Name: e.Name, Values: values})
	}
	return nil
}

// paramsFile returns the file name to write for an array with columns.
func paramsFile(a *jobspec.Array) any {
	if a.Columns == nil {
		return nil
	}
	return ParamsFile
}

// readParameters reads the names and values of array elements from a CSV file.
func readParameters(a *jobspec.Array, name string, from hclfile.Source) error {
	text, err := from.ReadFile(name)
	if err != nil {
		return err
	}
	r := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	r.TrimLeadingSpace = true
	a.Rows = [][]string{}
	if a.Columns, err = r.Read(); err != nil {
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%q is empty: its first line names the parameters", name)
		}
		return fmt.Errorf("%q: %w", name, err)
	}
	for {
		row, err := r.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%q: %w", name, err)
		case len(a.Rows) == jobspec.MaxElements:
			return fmt.Errorf("%q has more than %d elements; split it into several jobs", name, jobspec.MaxElements)
		}
		a.Rows = append(a.Rows, row)
	}
}

var dependencySchema = hclfile.For[jobspec.Dependency](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("type").Must().
			With("", "`afterok` (they succeeded), `afternotok` (they failed), `afterany` (they ended), `after` (they started), "+
				"`aftercorr` (element by element, between arrays) or `singleton` (your jobs of the same name ended)"),
		hclfile.Named("jobs").
			With("", "ids (`123`), elements of arrays (`\"123_4\"`), or names, which mean your newest job of that name"),
		hclfile.Named("delay").AtLeastOne().With("none", "how long to wait after the dependency is satisfied"),
		hclfile.Named("match").With("all", "`all` of the jobs, or `any` of them"),
	},
})

var logPolicySchema = hclfile.For[jobspec.LogPolicy](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("pattern").Must().With("", "regular expression in RE2's syntax that finds the line"),
		hclfile.Named("action").Must().
			With("", "`exclude_node` (restart elsewhere), `restart`, `fail` (do not restart), or `event` (only tell)"),
		hclfile.Named("stream").With("both", "`both`, `stdout` or `stderr`"),
	},
})

// constraintBlock is the block of constraints in a job or a group.
var constraintBlock = hclfile.NamedBlock("constraint", "constraints", "a condition that every node must meet",
	constraintSchema)

// affinityBlock is the block of affinities in a job or a group.
var affinityBlock = hclfile.NamedBlock("affinity", "affinities", "nodes to prefer, or to avoid", affinitySchema)

var constraintSchema = hclfile.For[jobspec.Constraint](&hclfile.Block{
	Attrs: conditionAttrs(func(c *jobspec.Constraint) *jobspec.Constraint { return c }),
})

var affinitySchema = hclfile.For[jobspec.Affinity](&hclfile.Block{
	Attrs: append(conditionAttrs(func(a *jobspec.Affinity) *jobspec.Constraint { return &a.Constraint }),
		hclfile.Named("weight").Must().
			With("", "1 to 100: how much such nodes are preferred; -1 to -100: how much they are avoided")),
})

// conditionAttrs are the attributes that constraint and affinity share.
func conditionAttrs[T any](of func(*T) *jobspec.Constraint) []hclfile.Attr {
	return []hclfile.Attr{
		hclfile.Named("attribute").OrName("node").Must().
			With("", "property of the node: `"+strings.Join(jobspec.AttributeNames(), "`, `")+"`"),
		hclfile.Named("operator").
			With("=", "`=` `!=` `<` `<=` `>` `>=` `regexp` `version` (`>= 550, < 600`) `in` `not_in` `glob` (`h100*`) or "+
				"`is_set`"),
		hclfile.WrittenAs(hclfile.Any("value", "string, number, bool or list",
			func(t *T, value decode.Value, _ hclfile.Source) (err error) {
				if value.IsList() {
					of(t).Values, err = value.Texts()
				} else {
					of(t).Value, err = value.Text()
				}
				return err
			}), func(t *T) any { return of(t).Value }).With("",
			"value for the comparison; memory needs a unit, as in `80GiB`; `in` and `not_in` take a list"),
		hclfile.Named("values").With("", "another spelling of a list in `value`"),
	}
}

// restartBlock is the restart block of a job or a group.
var restartBlock = hclfile.NamedBlock("restart", "restart", "retries after the program has failed", restartSchema)

// Writing a file includes only settings of preemptionBlock that differ from the defaults, which
// depend on the launchers.
func preemptionBlock() hclfile.Nested {
	block := hclfile.NamedBlock("preemption", "preemption", "how the program is stopped when the job is preempted",
		preemptionSchema)
	block.Written = func(parent any) []hclfile.Written {
		j := parent.(*jobspec.Job)
		differs, usual := *j.Preemption, j.UsualPreemption()
		if differs.Signal == usual.Signal {
			differs.Signal = ""
		}
		if differs.GracePeriod == usual.GracePeriod {
			differs.GracePeriod = 0
		}
		return []hclfile.Written{{Target: &differs}}
	}
	return implied(block)
}

var restartSchema = hclfile.For[jobspec.Restart](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("attempts").With("0", "retries within `window`, at most 100"),
		hclfile.Named("delay").AtLeastOne().With("30s", "wait before the first retry"),
		hclfile.Named("backoff").With("exponential",
			"`exponential` doubles the wait each time, `constant` does not"),
		hclfile.Named("max_delay").AtLeastOne().With("10m", "longest wait"),
		hclfile.Named("window").AtLeastOne().With("24h", "time within which attempts are counted"),
		hclfile.Named("exclude_node").With("true", "retry on other nodes than the one that failed"),
		hclfile.Named("retry_on_exit").With("all", "exit codes that are retried"),
		hclfile.Named("no_retry_on_exit").With("none", "exit codes that are not retried"),
	},
})

var checkpointSchema = hclfile.For[jobspec.Checkpoint](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("path").With("", "where the program saves; shown to users, and set as `$ROTA_CHECKPOINT_FILE`"),
		hclfile.Named("node_local").With("false", "each worker saves to a folder on its node's own disk, "+
			"`/run/rota/checkpoint`. Rota copies the folder to the node where the worker runs next; `path` is relative to it. "+
			"If the old node is down, the job starts from the beginning. Not for elastic jobs and jobs of several groups"),
		hclfile.Named("interval").AtLeastOne().With("", "how often it saves"),
		hclfile.Named("exit_code").AtLeastOne().
			With("85", "1 to 127: the exit code that says \"saved, requeue me\""),
		hclfile.Named("criu").With("false", "save the whole container with CRIU, for a program that cannot save its state. "+
			"The job must have one worker with one task, must not be elastic, and runs on nodes that have CRIU. When it is "+
			"preempted, its processes are saved instead of signalled, and later continue from there. A program with network "+
			"connections or GPUs, or a program paused at `rota.pause_point`, cannot be saved: it is signalled as if this were "+
			"false"),
		hclfile.Named("before_limit").AtLeastOne().
			With("no signal", "this long before the time limit of an attempt, or before an earlier deadline, the program gets "+
				"the signal of its preemption block and the notice `timeout`. It may keep running until the limit. It gets the "+
				"signal once in each attempt, even if the limit changes"),
		hclfile.Later("signal", "let the program save at intervals, and at the preemption signal"),
	},
})

var preemptionSchema = hclfile.For[jobspec.Preemption](&hclfile.Block{
	Attrs: []hclfile.Attr{
		hclfile.Named("signal").
			With("SIGTERM; SIGUSR1 with launch type slurm", "signal that asks the program to save and end"),
		hclfile.Named("grace_period").AtLeastOne().
			With("30s", "time between the signal and the kill"),
		hclfile.Named("requeue").With("true", "start the job again after a preemption or the loss of its node. With false "+
			"it ends as `PREEMPTED` or `NODE_FAIL`, and is preempted only after all other candidates"),
		hclfile.Named("exit_zero").With("requeue with a checkpoint block, else complete", "what exit code 0 means after a "+
			"preemption. `complete`: the job is done. `requeue`: the program has only saved its state, and the job starts "+
			"again, unless the program called `rota finished` or reached `progress { total }`"),
		hclfile.Named("signal_to").With("both", "`script`: the signal goes only to the shell of a script. `programs`: "+
			"before the limit it goes to the programs of the shell and not to the shell"),
		hclfile.Named("mode").With("", "`suspend`: the program can pause at a mini-batch boundary. It gives its GPUs back, "+
			"keeps its memory, and later continues from there. Without a mode the program is stopped"),
		hclfile.Later("max", "leave it out"),
		hclfile.Later("min_runtime", "leave it out"),
		hclfile.Later("resume", "leave it out: a stopped job is requeued"),
	},
})
