package slurm

import (
	"bufio"
	"encoding/json"
	"strings"

	"github.com/rota-hpc/rota/controld/model"
)

// number is a number of Slurm's JSON, which may be unknown or without end.
type number struct {
	Set      bool  `json:"set"`
	Infinite bool  `json:"infinite"`
	Number   int64 `json:"number"`
}

func numberOf[N ~int | ~int64](n N) number { return number{Set: true, Number: int64(n)} }

// asNumber returns a member of JSON as a number.
func asNumber(value any) (float64, bool) {
	switch n := value.(type) {
	case number:
		return float64(n.Number), n.Set
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint32:
		return float64(n), true
	case model.JobID:
		return float64(n), true
	}
	return 0, false
}

// put sets a member of an object by its path.
func put(object map[string]any, path string, value any) {
	for {
		first, rest, more := strings.Cut(path, ".")
		if !more {
			object[first] = value
			return
		}
		inner, ok := object[first].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[first] = inner
		}
		object, path = inner, rest
	}
}

// objectOf makes the JSON of a row: the members whose paths path returns.
func objectOf[T any](fields []field[T], path func(*field[T]) string, row T) map[string]any {
	object := map[string]any{}
	for i := range fields {
		f := &fields[i]
		p := path(f)
		switch {
		case p == "":
		case f.value != nil:
			put(object, p, f.value(row))
		default:
			put(object, p, f.text(row))
		}
	}
	return object
}

// document writes the JSON of a command: a list under its name, as Slurm's data_parser v0.0.42 has it.
type document struct {
	out   *bufio.Writer
	count int
}

// begin writes what is before the list.
func (d *document) begin(list string) {
	_, _ = d.out.WriteString("{\n  \"" + list + "\": [") // Flush returns the error
}

// add writes an item of the list.
func (d *document) add(item any) error {
	text, err := json.Marshal(item)
	if err != nil {
		return err
	}
	if d.count++; d.count > 1 {
		_ = d.out.WriteByte(',')
	}
	_, _ = d.out.WriteString("\n    ")
	_, err = d.out.Write(text)
	return err
}

// end writes what follows the list.
func (d *document) end(t *tool, cluster string) error {
	major, rest, _ := strings.Cut(release, ".")
	minor, micro, _ := strings.Cut(rest, ".")
	meta := map[string]any{
		"plugin": map[string]any{"type": "", "name": "", "data_parser": "data_parser/v0.0.42", "accounting_storage": ""},
		"slurm": map[string]any{"version": map[string]string{"major": major, "minor": minor, "micro": micro},
			"release": release, "cluster": cluster},
		"command": append([]string{t.name}, t.args...),
		"client":  map[string]any{"source": "", "user": "", "group": ""},
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	if d.count > 0 {
		_, _ = d.out.WriteString("\n  ")
	}
	_, _ = d.out.WriteString("],\n  \"meta\": " + string(text) + ",\n  \"errors\": [],\n  \"warnings\": []\n}\n")
	return d.out.Flush()
}

// exitCodeOf is an exit code in JSON.
func exitCodeOf(r *jobRow) any {
	status := []string{"SUCCESS"}
	signal := map[string]any{"id": number{}, "name": ""}
	switch {
	case !r.Code.Final():
		status = []string{"PENDING"}
	case r.Signal != 0:
		status = []string{"SIGNALED"}
		signal = map[string]any{"id": numberOf(r.Signal), "name": ""}
	case r.ExitCode != 0:
		status = []string{"ERROR"}
	}
	return map[string]any{"status": status, "return_code": numberOf(r.ExitCode), "signal": signal}
}

// splitSeconds is a processor time in JSON.
func splitSeconds(s float64) any {
	whole := int64(s)
	return map[string]any{"seconds": whole, "microseconds": int64((s - float64(whole)) * 1e6)}
}

// tresList is a list of resources in JSON, from cpu=8,mem=64G.
func tresList(text string) any {
	ids := map[string]int{"cpu": 1, "mem": 2, "node": 4, "billing": 5, "gres/gpu": 1001}
	list := []any{}
	for _, item := range strings.Split(text, ",") {
		key, count, ok := strings.Cut(item, "=")
		if !ok {
			continue
		}
		kind, name, _ := strings.Cut(key, "/")
		list = append(list, map[string]any{"type": kind, "name": name, "id": ids[key], "count": tresCount(count)})
	}
	return list
}

// stepList is the steps of a job in the JSON of sacct.
func stepList(r *jobRow) any {
	list := []any{}
	for _, row := range r.steps() {
		list = append(list, map[string]any{
			"step":      map[string]any{"id": row.rawID(), "name": row.step.id},
			"state":     []string{row.State},
			"exit_code": exitCodeOf(row),
			"nodes":     map[string]any{"count": 1, "range": row.batchHost(), "list": []string{row.batchHost()}},
			"tasks":     map[string]any{"count": 1},
			"time": map[string]any{"elapsed": int64(row.Elapsed), "start": numberOf(stampOf(row.Started)),
				"end": numberOf(stampOf(row.Ended)), "total": splitSeconds(row.cpuSeconds())},
			"tres": map[string]any{"allocated": tresList(row.allocatedTRES(true)),
				"requested": map[string]any{"max": []any{map[string]any{"type": "mem", "name": "", "id": 2,
					"count": int64(row.step.PeakMemory)}}}},
		})
	}
	return list
}
