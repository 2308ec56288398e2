#include "runtime/rendezvous/call_parcel.h"

#include "runtime/rendezvous/wire.h"

namespace sluice {

std::vector<std::byte> encode(const CallParcel& parcel) {
    WireWriter writer;
    writer.u64(parcel.call);
    writer.text(parcel.what);
    writer.u8(parcel.more ? 1 : 0);
    writer.bytes(parcel.piece);
    return writer.take();
}

CallParcel decode_call_parcel(std::span<const std::byte> payload) {
    WireReader reader(payload);
    CallParcel parcel;
    parcel.call = reader.u64();
    parcel.what = reader.text(kLongestWhat);
    parcel.more = reader.u8() != 0;
    const std::span<const std::byte> piece = reader.bytes(kLargestPiece);
    reader.expect_end();
    parcel.piece.assign(piece.begin(), piece.end());
    return parcel;
}

}  // namespace sluice
