// Package interference is a model, as data, of training jobs that share GPUs. For each kind of
// network it has the GPU use, the length of mini-batches and the cost of a suspension. It also has
// the speed of several networks on one GPU.
//
// Utilisation and the gains of packing come from table 1 of Gandiva (Xiao et al., OSDI 2018).
// Lengths of mini-batches, memory and suspension costs are our own numbers, within the bounds of
// the paper's text. The paper does not list them by network.
package interference

import (
	"bytes"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

//go:embed models.csv
var defaults []byte

// Network is the model of one kind of network.
type Network struct {
	Name        string
	Utilisation int64    // thousandths of a GPU that it keeps busy when it is alone
	Memory      int64    // thousandths of a GPU's memory
	StepUS      [4]int64 // of a mini-batch on 1, 2, 4 and 8 GPUs of one node
	SuspendMS   int64    // from the end of a mini-batch until its GPUs are free
	ResumeMS    int64    // until it works again
}

// Table is the networks that a model knows.
type Table struct{ networks []Network }

// Default returns the built-in table.
func Default() *Table {
	t, err := Read(bytes.NewReader(defaults))
	if err != nil {
		panic(err) // a test reads it
	}
	return t
}

// columns are the columns of a table, in order.
var columns = []string{"model", "utilisation_pm", "memory_pm", "step1_us", "step2_us", "step4_us", "step8_us",
	"suspend_ms", "resume_ms"}

// bounds of a value, by column.
const (
	mostNetworks = 1000
	mostValue    = 1_000_000_000
)

// ErrTable says that a table cannot be used. The text has line and column.
var ErrTable = errors.New("invalid interference table")

// Read reads a table: comma-separated values with a line of column names, and comments after a #.
func Read(r io.Reader) (*Table, error) {
	in := csv.NewReader(r)
	in.Comment, in.FieldsPerRecord, in.TrimLeadingSpace = '#', len(columns), true
	head, err := in.Read()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTable, err)
	}
	for i, name := range columns {
		if head[i] != name {
			line, column := in.FieldPos(i)
			return nil, fmt.Errorf("%w: line %d, column %d: the name of this column is %s, not %q", ErrTable, line, column, name,
				head[i])
		}
	}
	t := &Table{}
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrTable, err)
		}
		n, at, err := network(record)
		line, column := in.FieldPos(at)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%w: line %d, column %d (%s): %w", ErrTable, line, column, columns[at], err)
		case t.Network(n.Name) != nil:
			return nil, fmt.Errorf("%w: line %d, column %d: %q is duplicated", ErrTable, line, column, n.Name)
		case len(t.networks) == mostNetworks:
			return nil, fmt.Errorf("%w: line %d: more than %d networks", ErrTable, line, mostNetworks)
		}
		t.networks = append(t.networks, n)
	}
}

// network reads one line. The second result is the field that an error is about.
func network(record []string) (Network, int, error) {
	n := Network{Name: record[0]}
	if n.Name == "" {
		return n, 0, errors.New("a network has no name")
	}
	values := []*int64{&n.Utilisation, &n.Memory, &n.StepUS[0], &n.StepUS[1], &n.StepUS[2], &n.StepUS[3],
		&n.SuspendMS, &n.ResumeMS}
	for i, to := range values {
		least, most := int64(0), int64(mostValue)
		switch {
		case i < 2:
			least, most = 1, 1000
		case i < 6:
			least = 1
		}
		x, err := strconv.ParseInt(record[i+1], 10, 64)
		if err != nil || x < least || x > most {
			return n, i + 1, fmt.Errorf("%q is not a whole number from %d to %d", record[i+1], least, most)
		}
		*to = x
	}
	return n, 0, nil
}

// Network returns the model of a network, nil if it is not in the table.
func (t *Table) Network(name string) *Network {
	if i := slices.IndexFunc(t.networks, func(n Network) bool { return n.Name == name }); i >= 0 {
		return &t.networks[i]
	}
	return nil
}

// Step returns how long a mini-batch takes on some GPUs of one node, in µs. A number between two of
// the table takes as long as the lower one.
func (n *Network) Step(gpus int) int64 {
	step := n.StepUS[0]
	for i := range n.StepUS {
		if gpus >= 1<<i {
			step = n.StepUS[i]
		}
	}
	return step
}

// gains are the points of Gandiva's table 1, in thousandths. Each has the utilisation alone, and
// the summed rate of as many jobs of the kind as fit one GPU.
var gains = []struct{ utilisation, sum int64 }{
	{0, 6000}, {87, 5120}, {141, 3600}, {616, 1460}, {668, 1390}, {762, 1170}, {872, 840}, {940, 870}, {989, 890},
	{1000, 890},
}

// Packed returns how fast each of some networks is that share a GPU, in millionths of its rate
// alone. Table 1 of Gandiva has the summed rate of jobs of one kind. For jobs of several kinds we
// use the sum of a kind with their mean utilisation. No job is faster than alone.
func (t *Table) Packed(names []string) []int64 {
	rates := make([]int64, len(names))
	if len(names) == 0 {
		return rates
	}
	var busy int64
	for _, name := range names {
		if n := t.Network(name); n != nil {
			busy += n.Utilisation
		} else {
			busy += 1000 // of an unknown kind: the worst is assumed
		}
	}
	each := int64(1_000_000)
	if len(names) > 1 {
		each = min(each, summed(busy/int64(len(names)))*1000/int64(len(names)))
	}
	for i := range rates {
		rates[i] = each
	}
	return rates
}

// summed interpolates between the points of [gains].
func summed(utilisation int64) int64 {
	for i := 1; i < len(gains); i++ {
		if a, b := gains[i-1], gains[i]; utilisation <= b.utilisation {
			return a.sum + (b.sum-a.sum)*(utilisation-a.utilisation)/(b.utilisation-a.utilisation)
		}
	}
	return gains[len(gains)-1].sum
}
