package main

import (
	"math"
	"math/rand/v2"
)

// shape is the network's and the batch's. Together with the seed it decides every number the
// trainer prints.
type shape struct {
	Inputs int
	Hidden int
	Batch  int // samples of one step, over all workers
	Shards int // parts the batch is reduced in, however many workers there are
	Seed   uint64
}

// model is a perceptron with one hidden layer of tanh and a linear output. One flat slice has its
// weights: hidden weights, hidden biases, output weights, output bias.
type model struct {
	shape
	w []float64
}

func (s shape) size() int { return s.Hidden*s.Inputs + s.Hidden + s.Hidden + 1 }

// newModel draws the first weights from the seed alone.
func newModel(s shape) *model {
	m := &model{shape: s, w: make([]float64, s.size())}
	rng := rand.New(rand.NewPCG(s.Seed, 1))
	scale := 1 / math.Sqrt(float64(s.Inputs))
	for i := range m.w {
		m.w[i] = float64(rng.NormFloat64() * scale)
	}
	return m
}

// sample makes sample i of the data set: inputs and the answer of a fixed function of them. The
// same i always gives the same sample, so workers need no files and no order between them.
func (s shape) sample(i uint64, x []float64) (y float64) {
	rng := rand.New(rand.NewPCG(s.Seed, i+2))
	for j := range x {
		x[j] = rng.Float64()*2 - 1
		y += float64(math.Sin(3*x[j]) / float64(j+1))
	}
	return y
}

// gradient is what one shard contributes: the sum of the losses and of their derivatives over its
// samples.
type gradient struct {
	loss float64
	d    []float64
}

// shardGradient computes one shard of one step. Its result depends on the weights, the step and the
// shard only. The explicit conversions forbid fused multiply-add, so every processor computes the
// same bits.
func (m *model) shardGradient(step, shard int) gradient {
	g := gradient{d: make([]float64, len(m.w))}
	x, h := make([]float64, m.Inputs), make([]float64, m.Hidden)
	from, to := shard*m.Batch/m.Shards, (shard+1)*m.Batch/m.Shards
	for i := from; i < to; i++ {
		y := m.sample(uint64(step)*uint64(m.Batch)+uint64(i), x)
		m.accumulate(&g, x, h, y)
	}
	return g
}

// accumulate adds one sample's squared error and derivatives to g; h is scratch.
func (m *model) accumulate(g *gradient, x, h []float64, y float64) {
	w2 := m.Hidden*m.Inputs + m.Hidden // where the output weights start
	out := m.w[w2+m.Hidden]
	for k := range h {
		sum := m.w[m.Hidden*m.Inputs+k]
		for j, v := range x {
			sum += float64(m.w[k*m.Inputs+j] * v)
		}
		h[k] = math.Tanh(sum)
		out += float64(m.w[w2+k] * h[k])
	}
	diff := out - y
	g.loss += float64(diff * diff)
	g.d[w2+m.Hidden] += diff
	for k := range h {
		g.d[w2+k] += float64(diff * h[k])
		back := float64(float64(diff*m.w[w2+k]) * (1 - float64(h[k]*h[k])))
		g.d[m.Hidden*m.Inputs+k] += back
		for j, v := range x {
			g.d[k*m.Inputs+j] += float64(back * v)
		}
	}
}

// sum adds shards in their order. Floating-point addition is not associative, so this order, and
// not the number of workers, is what makes runs comparable bit for bit.
func sum(shards []gradient) gradient {
	total := gradient{d: make([]float64, len(shards[0].d))}
	for _, s := range shards {
		total.loss += s.loss
		for i, v := range s.d {
			total.d[i] += v
		}
	}
	return total
}

// apply takes one step of gradient descent and returns the mean loss of the batch before it.
func (m *model) apply(total gradient, rate float64) float64 {
	scale := rate / float64(m.Batch)
	for i, v := range total.d {
		m.w[i] -= float64(scale * v)
	}
	return total.loss / float64(m.Batch)
}
