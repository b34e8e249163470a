package follow

import (
	"slices"
	"strings"
	"time"
)

// noticeFor is the least time for which rota nodes shows that a node met another cluster state.
const noticeFor = 10 * time.Minute

// KeepAll has all containers go on until their leases end, because they belong to controllers that
// this node does not follow any more. The notice says so in rota nodes.
func (f *Follower) KeepAll(notice string) {
	l, unlock := f.lock()
	defer unlock()
	l.keepAll(notice, false)
}

// keepAll is KeepAll. See [Node] for unseen. The next answer counts whatever its index is.
func (l locked) keepAll(notice string, unseen bool) {
	l.index, l.notice, l.noticeAt = 0, notice, time.Now()
	l.Node.KeepAll(unseen)
	l.keepOnDisk()
}

// noticeChanged reports whether this node has to register again because of its notice. A notice about
// other controllers ends when nothing is kept any more.
func (f *Follower) noticeChanged() bool {
	f.mu.Lock()
	if f.notice != "" && time.Since(f.noticeAt) > noticeFor && !f.Node.KeepsAny() {
		f.notice = ""
	}
	noticed := f.noticed
	f.mu.Unlock()
	return f.noticeText() != noticed
}

// noticeText returns the whole notice of this node.
func (f *Follower) noticeText() string {
	f.mu.Lock()
	parts := []string{f.notice}
	f.mu.Unlock()
	if f.Notices != nil {
		parts = append(parts, f.Notices()...)
	}
	return strings.Join(slices.DeleteFunc(parts, func(one string) bool { return one == "" }), "; ")
}
