package jobfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"

	"github.com/rota-hpc/rota/jobspec"
	"github.com/rota-hpc/rota/jobspec/hclfile"
	"github.com/rota-hpc/rota/jobspec/hclfile/decode"
)

var arraySchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field[jobspec.Array]("indices").
			With("", "numbers and ranges of the elements, ascending, as in `0-99`, `0-98:2` or `1,4,7-9`"),
		hclfile.WrittenAs(hclfile.Any("matrix", "map(list)", setMatrix), func(a *jobspec.Array) any { return a.Matrix }).
			With("", "every combination of the values of some parameters, the last one changing fastest; each is "+
				"`array.NAME` and `$ROTA_PARAM_NAME`"),
		hclfile.WrittenAs(hclfile.Text("file", "path", readParameters), paramsFile).As("rows").
			With("", "CSV file below the job file's directory: names of parameters in its first line, then a line for each "+
				"element; at most 1 MiB"),
		field[jobspec.Array]("max_parallel").With("0: no limit", "how many elements may run at once"),
		field[jobspec.Array]("max_failures").
			With("-1: any number", "when more elements than this have failed, no more are started"),
		field[jobspec.Array]("order").With("index", "`index` or `random`: which elements start first"),
	},
	Blocks: []hclfile.Nested{
		hclfile.BlockOf[jobspec.Array]("stop", "stop", "keeps the elements that do best and cancels the others", stopSchema),
	},
}

var stopSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field[jobspec.ArrayStop]("metric").Must().With("", "metric that the elements report as progress"),
		field[jobspec.ArrayStop]("goal").With("progress's, else min", "`min` or `max`: what is better"),
		field[jobspec.ArrayStop]("at_step").AtLeastOne().Must().
			With("", "step at which the elements are compared, once all have reported it"),
		field[jobspec.ArrayStop]("keep").Must().With("", "`top 25%` or `top 4`: how many go on"),
	},
}

// setMatrix takes the axes in the order in which they are written.
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

// paramsFile returns the file name that is written for an array with columns.
func paramsFile(a *jobspec.Array) any {
	if a.Columns == nil {
		return nil
	}
	return ParamsFile
}

// readParameters reads the names and values of an array's elements from a CSV file.
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

var dependencySchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field[jobspec.Dependency]("type").Must().
			With("", "`afterok` (they succeeded), `afternotok` (they failed), `afterany` (they ended), `after` (they started), "+
				"`aftercorr` (element by element, between arrays) or `singleton` (your jobs of the same name ended)"),
		field[jobspec.Dependency]("jobs").
			With("", "ids (`123`), elements of arrays (`\"123_4\"`), or names, which mean your newest job of that name"),
		field[jobspec.Dependency]("delay").AtLeastOne().With("none", "how long to wait once it is met"),
		field[jobspec.Dependency]("match").With("all", "`all` of the jobs, or `any` of them"),
	},
}

var logPolicySchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field[jobspec.LogPolicy]("pattern").Must().With("", "regular expression in RE2's syntax that finds the line"),
		field[jobspec.LogPolicy]("action").Must().
			With("", "`exclude_node` (restart elsewhere), `restart`, `fail` (do not restart), or `event` (only tell)"),
		field[jobspec.LogPolicy]("stream").With("both", "`both`, `stdout` or `stderr`"),
	},
}

// constraintBlock is the block of constraints of T.
func constraintBlock[T any]() hclfile.Nested {
	return hclfile.BlockOf[T]("constraint", "constraints", "a condition that every node must meet", constraintSchema)
}

// affinityBlock is the block of affinities of T.
func affinityBlock[T any]() hclfile.Nested {
	return hclfile.BlockOf[T]("affinity", "affinities", "nodes that are taken first, or last", affinitySchema)
}

var constraintSchema = &hclfile.Block{
	Attrs: conditionAttrs(func(c *jobspec.Constraint) *jobspec.Constraint { return c }),
}

var affinitySchema = &hclfile.Block{
	Attrs: append(conditionAttrs(func(a *jobspec.Affinity) *jobspec.Constraint { return &a.Constraint }),
		field[jobspec.Affinity]("weight").Must().
			With("", "1 to 100: how much such nodes are preferred; -1 to -100: how much they are avoided")),
}

// conditionAttrs are what constraint and affinity have in common.
func conditionAttrs[T any](of func(*T) *jobspec.Constraint) []hclfile.Attr {
	return []hclfile.Attr{
		field[T]("attribute").OrName("node").Must().
			With("", "what is asked of the node: "+nodeAttributes()),
		field[T]("operator").
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
			"what it is compared with; a memory has its unit, as in `80GiB`; `in` and `not_in` take a list"),
		field[T]("values").With("", "another spelling of a list in `value`"),
	}
}

func nodeAttributes() string {
	text := ""
	for i, a := range jobspec.NodeAttributes() {
		if i > 0 {
			text += ", "
		}
		name := a.Name
		if a.Kind == "label" {
			name += "KEY"
		}
		text += "`" + name + "`"
	}
	return text
}

// restartBlock is the block of retries of T.
func restartBlock[T any]() hclfile.Nested {
	return hclfile.BlockOf[T]("restart", "restart", "retries after the program failed", restartSchema)
}

// preemptionBlock is written with the settings that differ from the defaults, which depend on the
// launchers.
func preemptionBlock() hclfile.Nested {
	block := hclfile.BlockOf[jobspec.Job]("preemption", "preemption", "how the program is stopped when its room is needed",
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

var restartSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field[jobspec.Restart]("attempts").With("0", "retries within `window`, at most 100"),
		field[jobspec.Restart]("delay").AtLeastOne().With("30s", "wait before the first retry"),
		field[jobspec.Restart]("backoff").With("exponential",
			"`exponential` doubles the wait each time, `constant` does not"),
		field[jobspec.Restart]("max_delay").AtLeastOne().With("10m", "longest wait"),
		field[jobspec.Restart]("window").AtLeastOne().With("24h", "time within which attempts are counted"),
		field[jobspec.Restart]("exclude_node").With("true", "retry on other nodes than the one that failed"),
		field[jobspec.Restart]("retry_on_exit").With("all", "exit codes that are retried"),
		field[jobspec.Restart]("no_retry_on_exit").With("none", "exit codes that are not"),
	},
}

var checkpointSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field[jobspec.Checkpoint]("path").With("", "where the program saves; for people"),
		field[jobspec.Checkpoint]("interval").AtLeastOne().With("", "how often it saves"),
		field[jobspec.Checkpoint]("exit_code").AtLeastOne().
			With("85", "1 to 127: the exit code that says \"saved, requeue me\""),
		hclfile.Later("signal", "save at intervals of your own, and at the preemption signal"),
		hclfile.Later("criu", "let the program save its own state"),
	},
}

var preemptionSchema = &hclfile.Block{
	Attrs: []hclfile.Attr{
		field[jobspec.Preemption]("signal").
			With("SIGTERM; SIGUSR1 with launch type slurm", "sent to ask the program to save and end"),
		field[jobspec.Preemption]("grace_period").AtLeastOne().
			With("30s", "time between the signal and the kill"),
		hclfile.Later("mode", "leave it out: a stopped job is requeued, an elastic one gives up workers first, and a "+
			"checkpoint block says that it goes on where it was"),
		hclfile.Later("max", "leave it out"),
		hclfile.Later("min_runtime", "leave it out"),
		hclfile.Later("resume", "leave it out: a stopped job is requeued"),
	},
}
