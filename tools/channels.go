package tools

import (
	"fmt"

	"github.com/drey-state/drey/metadata"
	"github.com/drey-state/drey/storage"
)

// ChannelSizes is the in-flight data of an operator in one direction.
type ChannelSizes struct {
	Operator metadata.OperatorID `json:"operatorId"`
	Name     string              `json:"name,omitempty"`
	UID      string              `json:"uid,omitempty"`
	// Direction is "input" or "output".
	Direction string `json:"direction"`
	// Group is the input gate or the result partition.
	Group int32 `json:"group"`
	// Channels have data, in Buffers buffers.
	Channels int `json:"channels"`
	Buffers  int `json:"buffers"`
	// Bytes are those of the channels, FileBytes the size of the files that
	// they are in, each once: what is in it besides belongs to others.
	Bytes     int64 `json:"bytes"`
	Files     int   `json:"files"`
	FileBytes int64 `json:"fileBytes"`
}

// channelSizes lists the exchanges that hold in-flight data.
func channelSizes(s *Snapshot, sel Selection) ([]ChannelSizes, error) {
	ops, err := sel.operators(s.Snapshot)
	if err != nil {
		return nil, err
	}
	var list []ChannelSizes
	for _, o := range ops {
		for _, side := range []string{"input", "output"} {
			found, err := sideSizes(s.Dir, o, side)
			if err != nil {
				return nil, err
			}
			list = append(list, found...)
		}
	}
	return list, nil
}

func sideSizes(dir string, o *metadata.Operator, side string) ([]ChannelSizes, error) {
	byGroup := map[int32]*ChannelSizes{}
	files := map[int32]map[string]bool{}
	var order []int32
	for _, t := range sortedSubtasks(o) {
		if t.State == nil {
			continue
		}
		handles := t.State.InputChannels
		if side == "output" {
			handles = t.State.OutputChannels
		}
		for i := range handles {
			h := &handles[i]
			channels, err := h.Channels()
			if err != nil {
				return nil, fmt.Errorf("operator %s, subtask %d, %s channel state: %w", operatorName(o), t.Index, side, err)
			}
			for _, c := range channels {
				sum := byGroup[c.Group]
				if sum == nil {
					sum = &ChannelSizes{Operator: o.ID, Name: o.Name.String(), UID: o.UID.String(), Direction: side, Group: c.Group}
					byGroup[c.Group], files[c.Group] = sum, map[string]bool{}
					order = append(order, c.Group)
				}
				sum.Channels++
				sum.Buffers += len(c.Offsets)
				sum.Bytes += c.Size
				if name := storage.Key(streamFile(dir, h.Delegate)); !files[c.Group][name] {
					files[c.Group][name] = true
					sum.Files++
					sum.FileBytes += max(0, streamSize(h.Delegate))
				}
			}
		}
	}
	var list []ChannelSizes
	for _, g := range sortedBy(order, func(g int32) int32 { return g }) {
		list = append(list, *byGroup[g])
	}
	return list, nil
}
