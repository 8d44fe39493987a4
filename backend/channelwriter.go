package backend

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/drey-state/drey/metadata"
)

// channelVersion is the only version of files of in-flight data (ChannelStateSerializerImpl).
const channelVersion = 0

// WriteChannels writes in-flight data of channels (ChannelStateCheckpointWriter): contents[i], records with their lengths as
// [ChannelBuffer] has them, is that of handles[i], of which Offsets, Size and Delegate are set. All are in one file, or each in its handle if
// all together may stand in the metadata. After an error nothing was left behind.
func WriteChannels(ctx context.Context, t Target, handles []metadata.ChannelState, contents [][]byte) error {
	if len(handles) != len(contents) {
		return fmt.Errorf("%d handles of channels for %d contents", len(handles), len(contents))
	}
	if len(handles) == 0 {
		return nil
	}
	s := t.Create(ctx)
	defer s.Abort()
	at := int64(4)
	if _, err := s.Write(binary.BigEndian.AppendUint32(nil, channelVersion)); err != nil {
		return err
	}
	for i, data := range contents {
		if len(data) > math.MaxInt32 {
			return fmt.Errorf("in-flight data of channel %d:%d: %w: %d bytes", handles[i].Group, handles[i].Channel, ErrTooLarge, len(data))
		}
		if _, err := s.Write(binary.BigEndian.AppendUint32(nil, uint32(len(data)))); err != nil {
			return err
		}
		if _, err := s.Write(data); err != nil {
			return err
		}
		handles[i].Offsets, handles[i].Size = []int64{at}, int64(4+len(data))
		at += int64(4 + len(data))
	}
	stream, err := s.Commit()
	if err != nil {
		return err
	}
	for i := range handles {
		handles[i].Delegate = stream
		if whole, ok := stream.(*metadata.ByteStream); ok {
			from := handles[i].Offsets[0]
			data := append([]byte{0, 0, 0, channelVersion}, whole.Data[from:from+handles[i].Size]...)
			handles[i].Offsets, handles[i].Size = []int64{4}, int64(len(data))
			handles[i].Delegate = &metadata.ByteStream{Name: NewHandleID(), Data: data}
		}
	}
	return nil
}
