package interference

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// kinds are the networks of the built-in table, in order of how much of a GPU they use.
var kinds = []string{"vae", "superres", "rhn", "scrnn", "mi-lstm", "lstm", "resnet50", "resnext"}

// The built-in table has the utilisation of table 1 of Gandiva. Two jobs of a kind that share a GPU
// are as fast as it says, unless a job would be faster than alone.
func TestTableOfThePaper(t *testing.T) {
	table := Default()
	utilisation := []int64{87, 141, 616, 668, 762, 872, 940, 989}
	// summed rates in thousandths; those of the first two are of more than two jobs
	sums := []int64{2000, 2000, 1460, 1390, 1170, 840, 870, 890}
	for i, kind := range kinds {
		n := table.Network(kind)
		if n == nil || n.Utilisation != utilisation[i] {
			t.Fatalf("%s: %+v", kind, n)
		}
		rates := table.Packed([]string{kind, kind})
		if sum := (rates[0] + rates[1]) / 1000; sum != sums[i] {
			t.Errorf("two of %s run at %d thousandths together, want %d", kind, sum, sums[i])
		}
	}
	if got := table.Packed([]string{"vae", "vae", "vae", "vae", "vae", "vae"}); got[0] != 5120*1000/6 {
		t.Errorf("six of vae run at %d millionths each", got[0])
	}
}

// Whatever shares a GPU, no job is faster than alone, every job makes progress, all are equally
// slowed, and the order does not matter.
func TestPackedIsNeverFaster(t *testing.T) {
	table := Default()
	names := append(slices.Clone(kinds), "unheard of")
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var on []string
		for range 1 + r.IntN(6) {
			on = append(on, names[r.IntN(len(names))])
		}
		rates := table.Packed(on)
		for i, rate := range rates {
			if rate > 1_000_000 || rate < 1 || rate != rates[0] {
				t.Fatalf("%v: job %d of rates %v", on, i, rates)
			}
		}
		if len(on) == 1 && rates[0] != 1_000_000 {
			t.Errorf("%v alone runs at %d", on, rates[0])
		}
		other := slices.Clone(on)
		slices.Reverse(other)
		if got := table.Packed(other); got[0] != rates[0] {
			t.Errorf("%v runs at %d, and in another order at %d", on, rates[0], got[0])
		}
	}
	if got := table.Packed(nil); len(got) != 0 {
		t.Errorf("nothing runs at %v", got)
	}
}

// One more job on a GPU makes none of the others faster. So does a job that uses more of it, up to
// the networks that use nearly all. For those the paper measured -16, -13 and -11 % in this order.
func TestPackedIsMonotone(t *testing.T) {
	table := Default()
	for i, a := range kinds {
		last := int64(1_000_000)
		for n := 1; n <= 8; n++ {
			each := table.Packed(slices.Repeat([]string{a}, n))[0]
			if each > last {
				t.Errorf("%d of %s run at %d each, one less at %d", n, a, each, last)
			}
			last = each
		}
		for k := range kinds[:6] {
			if k == 0 || i > 5 {
				continue
			}
			if less, more := table.Packed([]string{a, kinds[k-1]})[0], table.Packed([]string{a, kinds[k]})[0]; more > less {
				t.Errorf("%s is faster beside %s (%d) than beside %s (%d)", a, kinds[k], more, kinds[k-1], less)
			}
		}
	}
}

// A mini-batch takes less time on more GPUs of a node. A number between two of the table takes as
// long as the lower one.
func TestSteps(t *testing.T) {
	for _, kind := range kinds {
		n := Default().Network(kind)
		for gpus := 2; gpus <= 16; gpus++ {
			if n.Step(gpus) > n.Step(gpus-1) {
				t.Errorf("%s takes longer on %d GPUs than on %d", kind, gpus, gpus-1)
			}
		}
		if n.Step(3) != n.StepUS[1] || n.Step(7) != n.StepUS[2] || n.Step(0) != n.StepUS[0] || n.Step(64) != n.StepUS[3] {
			t.Errorf("%s: steps between those of the table", kind)
		}
	}
}

const head = "model,utilisation_pm,memory_pm,step1_us,step2_us,step4_us,step8_us,suspend_ms,resume_ms\n"

func TestRead(t *testing.T) {
	table, err := Read(strings.NewReader("# mine\n" + head + "a,1,2,3,4,5,6,7,8\n"))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Network{"a", 1, 2, [4]int64{3, 4, 5, 6}, 7, 8}); *table.Network("a") != want {
		t.Errorf("read %+v", *table.Network("a"))
	}
	for _, test := range []struct{ text, want string }{
		{"", "EOF"},
		{"model\n", "wrong number of fields"},
		{strings.Replace(head, "memory_pm", "memory", 1),
			`line 1, column 22: the name of this column is memory_pm, not "memory"`},
		{head + "a,1,2\n", "line 2: wrong number of fields"},
		{head + ",1,2,3,4,5,6,7,8\n", "line 2, column 1 (model): a network has no name"},
		{head + "a,0,2,3,4,5,6,7,8\n",
			`line 2, column 3 (utilisation_pm): "0" is not a whole number from 1 to 1000`},
		{head + "a,1,1001,3,4,5,6,7,8\n", `column 5 (memory_pm): "1001"`},
		{head + "a,1,2,0,4,5,6,7,8\n", `(step1_us): "0"`},
		{head + "a,1,2,3,4,5,6,-7,8\n", `(suspend_ms): "-7"`},
		{head + "a,1,2,3,4,5,6,7,1e3\n", `(resume_ms): "1e3"`},
		{head + "a,1,2,3,4,5,6,7,8\n\na,1,2,3,4,5,6,7,8\n", `line 4, column 1: "a" is duplicated`},
		{head + "\"a,1,2,3,4,5,6,7,8\n", `extraneous or missing " in quoted-field`},
	} {
		_, err := Read(strings.NewReader(test.text))
		if !errors.Is(err, ErrTable) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want one with %q", test.text, err, test.want)
		}
	}
	var many strings.Builder
	many.WriteString(head)
	for i := range mostNetworks + 1 {
		many.WriteString(strings.Repeat("x", i+1) + ",1,2,3,4,5,6,7,8\n")
	}
	if _, err := Read(strings.NewReader(many.String())); err == nil || !strings.Contains(err.Error(), "more than 1000") {
		t.Errorf("too many networks: %v", err)
	}
}

// FuzzRead reads any text as a table. Every accepted value is within its bounds.
func FuzzRead(f *testing.F) {
	f.Add(string(defaults))
	f.Add(head + "a,1,2,3,4,5,6,7,8\n")
	f.Add(head + "\"a\nb\",1000,1000,1000000000,4,5,6,0,0\n#\n")
	f.Add(head + "a,1,2\n")
	f.Fuzz(func(t *testing.T, text string) {
		table, err := Read(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrTable) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		var names []string
		for _, n := range table.networks {
			if n.Name == "" || slices.Contains(names, n.Name) || n.Utilisation < 1 || n.Utilisation > 1000 || n.Memory < 1 ||
				n.Memory > 1000 || n.Step(1) < 1 || n.Step(8) < 1 || n.SuspendMS < 0 || n.ResumeMS < 0 {
				t.Fatalf("%q: read %+v", text, n)
			}
			names = append(names, n.Name)
		}
		if rates := table.Packed(names); len(names) > 0 && (rates[0] < 0 || rates[0] > 1_000_000) {
			t.Fatalf("%q: packed at %v", text, rates)
		}
	})
}
