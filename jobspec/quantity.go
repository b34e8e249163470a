package jobspec

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rota-hpc/rota/jobspec/duration"
)

// Bounds of what a job file may say.
const (
	MaxDuration Seconds = 3650 * 86400 // ten years: a longer one has the wrong unit
	MaxSize     Bytes   = 1 << 50      // 1 PiB, for the same reason
)

// badQuantity returns why a text is not a duration or a size, and what to write instead.
func badQuantity(text, problem, hint string) error {
	return fmt.Errorf("%q %s: %s", text, problem, hint)
}

const durationHint = `write a number with a unit (s, m, h, d, w) such as "90m" or "2d12h", or D-HH:MM:SS`

// ParseSeconds parses a duration: a sequence of numbers with units, or Slurm's HH:MM:SS and
// D-HH:MM:SS. The units are w, d, h, m, s, and ms, us, ns as in Go. A bare number is refused,
// because Slurm would read minutes. The sum must be whole seconds.
func ParseSeconds(text string) (Seconds, error) {
	if isNumber(text) {
		return 0, noUnit(text, new(Seconds).Example(text))
	}
	total, ok := duration.Seconds(text)
	if !ok {
		return 0, badQuantity(text, "is not a duration", durationHint)
	}
	if total > float64(MaxDuration) {
		return 0, badQuantity(text, "is too long", "the longest duration is 3650d")
	}
	whole := math.Round(total)
	if math.Abs(total-whole) > 1e-9 {
		return 0, badQuantity(text, "is not a whole number of seconds", "round it to seconds")
	}
	return Seconds(whole), nil
}

// FromText sets s to the result of [ParseSeconds].
func (s *Seconds) FromText(text string) (err error) {
	*s, err = ParseSeconds(text)
	return err
}

// Kind names the lexical type in messages and documentation.
func (*Seconds) Kind() string { return "duration" }

// longMinutes is a number of minutes. From it on, a number without a unit counts as seconds: 3600
// means an hour, and not two and a half days.
const longMinutes = 300

// Example returns the number n with the units that can have been meant, each in quotes.
func (*Seconds) Example(n string) string {
	if x, err := strconv.ParseFloat(n, 64); err != nil || x >= longMinutes {
		return strconv.Quote(n + "s")
	}
	return fmt.Sprintf("%q or %q", n+"s", n+"m")
}

const sizeHint = `write a number with a unit (B, K, M, G, T, or KiB, MiB, GiB, TiB) such as "64GiB"`

// ParseSize reads a size: a number and one of B, K, M, G, T, each also with iB or B behind it. All
// units are binary, as in Slurm and Docker. A bare number is refused, because Slurm would read MiB.
func ParseSize(text string) (Bytes, error) {
	if isNumber(text) {
		return 0, noUnit(text, new(Bytes).Example(text))
	}
	number := leadingNumber(text)
	scale := unitBytes[text[len(number):]]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || scale == 0 {
		return 0, badSize(text, number)
	}
	total := n * float64(scale)
	if total > float64(MaxSize) {
		return 0, badQuantity(text, "is too large", "the largest size is 1024TiB")
	}
	if total != math.Trunc(total) {
		total = math.Ceil(total)
	}
	return Bytes(total), nil
}

func badSize(text, number string) error {
	hint, unit := sizeHint, strings.TrimSpace(text[len(number):])
	for _, known := range []string{"B", "K", "M", "G", "T", "KiB", "MiB", "GiB", "TiB", "KB", "MB", "GB", "TB"} {
		if number != "" && strings.EqualFold(unit, known) {
			hint = fmt.Sprintf("write %q", number+known)
		}
	}
	return badQuantity(text, "is not a size", hint)
}

// FromText sets b to the result of [ParseSize].
func (b *Bytes) FromText(text string) (err error) {
	*b, err = ParseSize(text)
	return err
}

// Kind names the lexical type in messages and documentation.
func (*Bytes) Kind() string { return "size" }

// Example returns the number n with the unit that was probably meant, in quotes. A number that is
// too large for GiB is a number of MiB, as in Slurm, or of bytes.
func (*Bytes) Example(n string) string {
	unit := "GiB"
	switch x, err := strconv.ParseFloat(n, 64); {
	case err != nil || x < float64(GiB/MiB):
	case x < float64(MaxSize/GiB):
		unit = "MiB"
	default:
		unit = "B"
	}
	return strconv.Quote(n + unit)
}

// unitBytes are the units of a size.
var unitBytes = map[string]Bytes{
	"B": 1, "K": KiB, "KB": KiB, "KiB": KiB, "M": MiB, "MB": MiB, "MiB": MiB, "G": GiB, "GB": GiB, "GiB": GiB,
	"T": TiB, "TB": TiB, "TiB": TiB,
}

func noUnit(text, example string) error {
	return badQuantity(text, "has no unit", "write "+example)
}

// leadingNumber returns the digits at the start of text, with at most one decimal point between
// digits, at most 18 characters.
func leadingNumber(text string) string {
	end, dot := 0, false
	for end < len(text) && end < 18 && (isDigit(text[end]) || text[end] == '.' && !dot && end > 0) {
		dot = dot || text[end] == '.'
		end++
	}
	return text[:end]
}

func isNumber(text string) bool { return text != "" && leadingNumber(text) == text }

func isDigits(text string) bool {
	for i := range len(text) {
		if !isDigit(text[i]) {
			return false
		}
	}
	return text != ""
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// String writes s with the largest units: 1h30m, 2d12h.
func (s Seconds) String() string {
	if s == 0 {
		return "0s"
	}
	var b strings.Builder
	rest := s
	if rest < 0 {
		b.WriteByte('-')
		rest = -rest
	}
	for _, u := range []struct {
		size Seconds
		name byte
	}{{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}} {
		if n := rest / u.size; n > 0 {
			b.WriteString(strconv.FormatInt(int64(n), 10))
			b.WriteByte(u.name)
			rest %= u.size
		}
	}
	return b.String()
}

// String writes b exactly, with the largest binary unit that divides it: 64GiB, 1536MiB.
func (b Bytes) String() string {
	for _, u := range []struct {
		size Bytes
		name string
	}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}} {
		if b != 0 && b%u.size == 0 {
			return strconv.FormatInt(int64(b/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10) + "B"
}

// ParseShare reads a part of a GPU, above 0 and at most 1, in thousandths.
func ParseShare(text string) (int, error) {
	n, err := strconv.ParseFloat(text, 64)
	if len(text) > 40 {
		text = text[:37] + "..."
	}
	switch thousandths := math.Round(n * WholeGPU); {
	case err != nil || math.IsNaN(n):
		return 0, badQuantity(text, "is not a part of a GPU", "write a number such as 0.5")
	case n > 1:
		return 0, badQuantity(text, "is more than one GPU", "a share is a part of one GPU, 0.001 to 1; for more write a "+
			"whole number of GPUs")
	case n <= 0:
		return 0, badQuantity(text, "is not a part of a GPU", "write 0.001 to 1")
	case math.Abs(thousandths-n*WholeGPU) > 1e-6:
		return 0, badQuantity(text, "is finer than a thousandth of a GPU", "round it to 0.001")
	default:
		return int(thousandths), nil
	}
}

// SetGPUs asks for the number of GPUs in a text: whole ones, or a part of one with as great a part of its
// memory.
func (r *Resources) SetGPUs(text string) error {
	n, err := strconv.Atoi(text)
	if err == nil {
		r.GPUs = n
		return nil
	}
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return badQuantity(text, "is not a number of GPUs", "write a whole number, or a part of a GPU such as 0.5")
	}
	share, err := ParseShare(text)
	if err != nil {
		return err
	}
	r.GPUs = 1
	if share < WholeGPU {
		r.GPU = &GPU{Share: share, MaxMemory: PartOfMemory}
	}
	return nil
}

// ShareText writes a share as a job file has it: 0.5.
func (g *GPU) ShareText() string {
	return strconv.FormatFloat(float64(g.Share)/WholeGPU, 'f', -1, 64)
}

// IsZero reports whether s is 0, which in a job means "not written".
func (s *Seconds) IsZero() bool { return *s == 0 }

// IsZero reports whether b is 0, which in a job means "not written".
func (b *Bytes) IsZero() bool { return *b == 0 }
