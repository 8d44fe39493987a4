package tools

import "github.com/drey-state/drey/metadata"

// uids matches candidate uids with operator ids.
type uids struct {
	list []string
	by   map[metadata.OperatorID]derived
	used map[string]bool
}

// derived is a uid that Flink makes from one that the user set.
type derived struct{ uid, from string }

// derivedUIDs gives the uids that Flink gives the operators of a sink with
// this uid: of its writer, committer and global committer. Further parts have
// the form "UID: PART", of which the user must name the parts.
func derivedUIDs(uid string) []string {
	return []string{uid, "Sink Committer: " + uid, "Sink " + uid + " Global Committer"}
}

func newUIDs(candidates []string) *uids {
	u := &uids{list: candidates, by: map[metadata.OperatorID]derived{}, used: map[string]bool{}}
	for _, c := range candidates {
		for i, uid := range derivedUIDs(c) {
			id := metadata.UIDHash(uid)
			// A uid as the user gave it goes before one that was derived.
			if _, ok := u.by[id]; !ok || i == 0 {
				u.by[id] = derived{uid, c}
			}
		}
	}
	return u
}

// match gives the uid of an operator, "" if no candidate fits.
func (u *uids) match(id metadata.OperatorID) string {
	d, ok := u.by[id]
	if ok {
		u.used[d.from] = true
	}
	return d.uid
}

// unmatched lists the candidates that were never matched, in their order.
func (u *uids) unmatched() []string {
	var list []string
	for _, c := range u.list {
		if !u.used[c] {
			list = append(list, c)
		}
	}
	return list
}
