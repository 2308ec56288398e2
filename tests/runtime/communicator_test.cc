#include "runtime/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "runtime/decoder/head_blocks.h"

namespace sluice {
namespace {

using Floats = std::vector<float>;

// A group of `n` threads on ranks 10, 11 ...
struct Team {
    explicit Team(std::uint32_t n) : communicator("group 2", ranks(n), monitor) {}

    static std::vector<Rank> ranks(std::uint32_t n) {
        std::vector<Rank> all;
        for (std::uint32_t m = 0; m < n; ++m) all.push_back(Rank{10 + m});
        return all;
    }

    // Calls `work(member)` on a thread per member; returns what each threw, "" for nothing.
    std::vector<std::string> run(const std::function<void(std::uint32_t)>& work) {
        std::vector<std::string> errors(communicator.size());
        {
            std::vector<std::jthread> threads;
            for (std::uint32_t m = 0; m < communicator.size(); ++m)
                threads.emplace_back([&, m] {
                    try {
                        work(m);
                    } catch (const InternalError& error) {
                        errors[m] = error.what();
                    } catch (const RunStopped&) {
                        errors[m] = "stopped";
                    }
                });
        }
        return errors;
    }
    void run_well(const std::function<void(std::uint32_t)>& work) {
        for (const std::string& error : run(work)) EXPECT_EQ(error, "");
    }

    RunMonitor monitor;
    Communicator communicator;
};

// Of very different sizes, so that every order of adding them up gives another sum.
std::vector<Floats> values(std::uint32_t members, std::size_t length, std::uint32_t seed = 1) {
    std::mt19937 random(seed);
    std::vector<Floats> all(members, Floats(length));
    for (Floats& own : all)
        for (float& value : own)
            value = std::ldexp(static_cast<float>(random() % 2001) - 1000, static_cast<int>(random() % 20));
    return all;
}

Floats sum(const std::vector<Floats>& all) {
    Floats result = all[0];
    for (std::size_t m = 1; m < all.size(); ++m)
        for (std::size_t i = 0; i < result.size(); ++i) result[i] += all[m][i];
    return result;
}

// Parts of uneven length.
std::vector<std::size_t> cuts(std::size_t length, std::uint32_t members) {
    std::vector<std::size_t> at = {0};
    for (std::uint32_t m = 1; m < members; ++m) at.push_back(length * m * m / members / members);
    at.push_back(length);
    return at;
}

constexpr std::uint32_t kMembers[] = {1, 2, 3, 5};
constexpr std::size_t kLengths[] = {0, 1, 7, 1024, 5000};

TEST(Communicator, AllGather) {
    for (const std::uint32_t n : kMembers)
        for (const std::size_t length : kLengths) {
            Team team(n);
            const Floats wanted = values(1, length)[0];
            const std::vector<std::size_t> at = cuts(length, n);
            const auto part = [&](std::uint32_t m) { return std::span(wanted).subspan(at[m], at[m + 1] - at[m]); };
            team.run_well([&](std::uint32_t m) {
                Floats all(length);
                team.communicator.all_gather({m, "apart"}, part(m), all);
                EXPECT_EQ(all, wanted);
                Floats in_place(length);
                const std::span<float> mine = std::span(in_place).subspan(at[m], part(m).size());
                std::copy(part(m).begin(), part(m).end(), mine.begin());
                team.communicator.all_gather({m, "in place"}, mine, in_place);
                EXPECT_EQ(in_place, wanted);
            });
        }
}

TEST(Communicator, ReduceScatterAddsInTheOrderOfMembers) {
    for (const std::uint32_t n : kMembers)
        for (const std::size_t length : kLengths) {
            Team team(n);
            std::vector<Floats> all = values(n, length);
            const Floats wanted = sum(all);
            const std::vector<std::size_t> at = cuts(length, n);
            team.run_well([&](std::uint32_t m) {
                const Floats part(wanted.begin() + static_cast<std::ptrdiff_t>(at[m]),
                                  wanted.begin() + static_cast<std::ptrdiff_t>(at[m + 1]));
                Floats mine(part.size());
                team.communicator.reduce_scatter({m, "apart"}, all[m], mine);
                EXPECT_EQ(mine, part);
                const std::span<float> place = std::span(all[m]).subspan(at[m], part.size());
                team.communicator.reduce_scatter({m, "in place"}, all[m], place);
                EXPECT_EQ(Floats(place.begin(), place.end()), part);
            });
        }
}

TEST(Communicator, AllReduceAddsInTheOrderOfMembers) {
    for (const std::uint32_t n : kMembers)
        for (const std::size_t length : kLengths) {
            Team team(n);
            std::vector<Floats> all = values(n, length), again = all;
            const Floats wanted = sum(all);
            team.run_well([&](std::uint32_t m) {
                team.communicator.all_reduce({m, "whole"}, all[m]);
                EXPECT_EQ(all[m], wanted);
                // each member cuts its values in another way, and some pieces are empty
                std::vector<std::span<float>> pieces;
                const std::vector<std::size_t> at = cuts(length, m + 1);
                for (std::uint32_t k = 0; k <= m; ++k)
                    pieces.push_back(std::span(again[m]).subspan(at[k], at[k + 1] - at[k]));
                pieces.push_back({});
                team.communicator.all_reduce({m, "pieces"}, pieces);
                EXPECT_EQ(again[m], wanted);
                std::vector<double> doubles = {1e100 * (m == 0), 1.0, -1e100 * (m + 1 == n)};
                team.communicator.all_reduce({m, "doubles"}, doubles);
                EXPECT_EQ(doubles, (std::vector<double>{1e100, static_cast<double>(n), -1e100}));
            });
        }
}

// In place, of pieces that the members share out unevenly; some are empty.
TEST(Communicator, SharesOfPiecesAreSummedAndGathered) {
    for (const std::uint32_t n : kMembers) {
        constexpr std::size_t kPieces[] = {7, 0, 2500, 1};
        Team team(n);
        std::vector<Floats> all = values(n, 2508);
        const std::vector<Floats> before = all;
        const Floats wanted = sum(all);
        team.run_well([&](std::uint32_t m) {
            std::vector<std::span<float>> pieces;
            std::vector<std::uint32_t> owner;
            for (std::size_t at = 0; const std::size_t length : kPieces) {
                pieces.push_back(std::span(all[m]).subspan(at, length));
                for (std::size_t i = 0; i < length; ++i)
                    owner.push_back(static_cast<std::uint32_t>(i / ((length + n - 1) / n)));
                at += length;
            }
            team.communicator.reduce_scatter_shares({m, "gradients"}, pieces);
            for (std::size_t i = 0; i < wanted.size(); ++i)
                EXPECT_EQ(all[m][i], owner[i] == m ? wanted[i] : before[m][i]);
            team.communicator.all_gather_shares({m, "weights"}, pieces);
            EXPECT_EQ(all[m], wanted);
        });
    }
}

TEST(Communicator, SharesOfOtherPiecesAreRefused) {
    std::vector<Floats> all(2, Floats(8));
    for (const bool gathers : {true, false}) {
        Team fresh(2);
        const auto errors = fresh.run([&](std::uint32_t m) {
            const std::size_t cut = m == 0 ? 4 : 3;
            const std::vector<std::span<float>> pieces = {std::span(all[m]).first(cut), std::span(all[m]).subspan(cut)};
            gathers ? fresh.communicator.all_gather_shares({m, "weights"}, pieces)
                    : fresh.communicator.reduce_scatter_shares({m, "weights"}, pieces);
        });
        for (const std::string& error : errors)
            EXPECT_EQ(error, std::string("group 2, call 0: rank 11 calls ") +
                                 (gathers ? "all_gather" : "reduce_scatter") +
                                 " of 32 bytes for \"weights\", but in other pieces than rank 10");
    }
}

TEST(Communicator, AllToAll) {
    for (const std::uint32_t n : kMembers) {
        Team team(n);
        const auto length = [](std::uint32_t from, std::uint32_t to) { return std::size_t{3} * from + to; };
        team.run_well([&](std::uint32_t m) {
            std::vector<Floats> out, in;
            std::vector<std::span<const float>> outs;
            std::vector<std::span<float>> ins;
            for (std::uint32_t k = 0; k < n; ++k) {
                out.emplace_back(length(m, k), static_cast<float>(10 * m + k));
                in.emplace_back(length(k, m), 0.0F);
            }
            for (std::uint32_t k = 0; k < n; ++k) {
                outs.emplace_back(out[k]);
                ins.emplace_back(in[k]);
            }
            team.communicator.all_to_all({m, "heads"}, outs, ins);
            for (std::uint32_t k = 0; k < n; ++k)
                EXPECT_EQ(in[k], Floats(length(k, m), static_cast<float>(10 * k + m)));
        });
    }
}

// Tokens of a member with the heads of all, [token][head], packed by whose heads they are (head_blocks.h), become all
// tokens with the heads of one, [token][head] again; and the way back. Queries have three values a head and member,
// keys with values two; both go in one call.
TEST(Communicator, AllToAllOfSeveralTensorsTurnsTokensIntoHeads) {
    constexpr std::int64_t kRows = 3;
    for (const std::uint32_t n : kMembers) {
        Team team(n);
        const auto value = [](std::int64_t token, std::int64_t column) {
            return static_cast<float>(1000 * token + column);
        };
        team.run_well([&](std::uint32_t m) {
            std::vector<Floats> rows, heads, again;
            std::vector<std::span<const float>> out, back_out;
            std::vector<std::span<float>> in, back_in;
            for (const std::int64_t width : {3, 2}) {
                rows.emplace_back(static_cast<std::size_t>(kRows * width * n));
                heads.emplace_back(rows.back().size()), again.emplace_back(rows.back().size());
                const HeadBlocks packed{rows.back().data(), n, kRows, width};
                for (std::int64_t of = 0; of < n; ++of)
                    for (std::int64_t r = 0; r < kRows; ++r)
                        for (std::int64_t c = 0; c < width; ++c)
                            packed.of(of).row(r)[c] = value(m * kRows + r, of * width + c);
            }
            for (std::size_t k = 0; k < rows.size(); ++k) {
                for (const auto part : exchanged_parts(std::span<const float>(rows[k]), n)) out.push_back(part);
                for (const auto part : exchanged_parts(std::span(heads[k]), n)) in.push_back(part);
                for (const auto part : exchanged_parts(std::span<const float>(heads[k]), n)) back_out.push_back(part);
                for (const auto part : exchanged_parts(std::span(again[k]), n)) back_in.push_back(part);
            }
            team.communicator.all_to_all({m, "qkv"}, out, in);
            for (std::size_t k = 0; k < heads.size(); ++k) {
                const std::int64_t width = k == 0 ? 3 : 2;
                for (std::int64_t t = 0; t < n * kRows; ++t)
                    for (std::int64_t c = 0; c < width; ++c)
                        EXPECT_EQ(heads[k][static_cast<std::size_t>(t * width + c)], value(t, m * width + c));
            }
            team.communicator.all_to_all({m, "back"}, back_out, back_in);
            EXPECT_EQ(again, rows);
        });
    }
}

TEST(Communicator, AllToAllWithoutAPartForEveryMemberIsAFault) {
    Team team(2);
    const std::vector<std::string> errors = team.run([&](std::uint32_t m) {
        Floats values(8);
        std::vector<std::span<const float>> out(m == 0 ? 2 : 4, std::span<const float>(values).first(1));
        std::vector<std::span<float>> in(out.size(), std::span(values).last(1));
        team.communicator.all_to_all({m, "qkv"}, out, in);
    });
    for (const std::string& error : errors)
        EXPECT_NE(error.find("sends 2 parts to 2 members, but rank 11 expects 4"), error.npos) << error;
}

TEST(Communicator, BroadcastSendAndBarrier) {
    Team team(3);
    std::atomic<int> here = 0;
    team.run_well([&](std::uint32_t m) {
        for (std::uint32_t root = 0; root < 3; ++root) {
            Floats own(7, static_cast<float>(m));
            team.communicator.broadcast({m, "weights"}, root, std::as_writable_bytes(std::span(own)));
            EXPECT_EQ(own, Floats(7, static_cast<float>(root)));
        }
        ++here;
        team.communicator.barrier({m, ""});
        EXPECT_EQ(here, 3);
    });
    Team pair(2);
    pair.run_well([&](std::uint32_t m) {
        for (int k = 0; k < 100; ++k) {
            Floats own(5, static_cast<float>(m == 0 ? k : -1));
            if (m == 0) pair.communicator.send({m, "x"}, std::as_bytes(std::span(own)));
            if (m == 1) pair.communicator.receive({m, "x"}, std::as_writable_bytes(std::span(own)));
            EXPECT_EQ(own, Floats(5, static_cast<float>(k)));
        }
    });
}

// A caller may change its memory as soon as a call has returned: others are done with it.
TEST(Communicator, NobodyReadsAfterACallHasReturned) {
    Team team(3);
    team.run_well([&](std::uint32_t m) {
        Floats own(2000), all(6000);
        for (int k = 0; k < 200; ++k) {
            std::fill(own.begin(), own.end(), static_cast<float>(1000 * k + static_cast<int>(m)));
            team.communicator.all_gather({m, "again"}, own, all);
            for (std::size_t i = 0; i < all.size(); ++i)
                ASSERT_EQ(all[i], static_cast<float>(1000 * k + static_cast<int>(i / 2000)));
        }
    });
}

// Every member gets the same words, which name both calls.
TEST(Communicator, CallsThatDifferAreNamed) {
    struct Case {
        std::string expected;
        std::function<void(Communicator&, std::uint32_t)> call;  // member 1 differs
    };
    const auto floats = [](std::size_t n) { return Floats(n); };
    const Case cases[] = {
        {"group 2, call 1: rank 10 calls all_reduce of 16 bytes for \"layer 1\", but rank 11 calls all_gather of 16 "
         "bytes "
         "for \"layer 1\", expected the same call",
         [&](Communicator& c, std::uint32_t m) {
             Floats x = floats(4);
             if (m == 1)
                 c.all_gather({m, "layer 1"}, std::span(x).first(2), x);
             else
                 c.all_reduce({m, "layer 1"}, x);
         }},
        {"group 2, call 1: rank 10 calls all_reduce of 16 bytes for \"layer 1\", but rank 11 calls all_reduce of 20 "
         "bytes "
         "for \"layer 1\", expected the same call",
         [&](Communicator& c, std::uint32_t m) {
             Floats x = floats(m == 1 ? 5 : 4);
             c.all_reduce({m, "layer 1"}, x);
         }},
        {"group 2, call 1: rank 10 calls all_reduce of 16 bytes for \"layer 1\", but rank 11 calls all_reduce of 16 "
         "bytes "
         "for \"layer 2\", expected the same call",
         [&](Communicator& c, std::uint32_t m) {
             Floats x = floats(4);
             c.all_reduce({m, m == 1 ? "layer 2" : "layer 1"}, x);
         }},
        {"group 2, call 1: rank 10 calls broadcast of 16 bytes for \"w\", but rank 11 calls broadcast of 16 bytes from "
         "member 1 for \"w\", expected the same call",
         [&](Communicator& c, std::uint32_t m) {
             Floats x = floats(4);
             c.broadcast({m, "w"}, m == 1 ? 1 : 0, std::as_writable_bytes(std::span(x)));
         }},
        {"group 2, call 1: rank 10 calls all_gather of 16 bytes for \"x\", but the members' parts have 20 bytes "
         "together",
         [&](Communicator& c, std::uint32_t m) {
             Floats x = floats(4), mine = floats(m == 1 ? 3 : 1);
             c.all_gather({m, "x"}, mine, x);
         }},
        {"group 2, call 1: rank 10 calls all_to_all of 0 bytes for \"x\", and sends 2 floats to rank 11, which expects "
         "3",
         [&](Communicator& c, std::uint32_t m) {
             Floats x = floats(3);
             const std::vector<std::span<const float>> out(3, std::span<const float>(x).first(2));
             const std::vector<std::span<float>> in(3, std::span(x).first(m == 1 ? 3 : 2));
             c.all_to_all({m, "x"}, out, in);
         }},
    };
    for (const Case& c : cases) {
        Team team(3);
        const std::vector<std::string> errors = team.run([&](std::uint32_t m) {
            team.communicator.barrier({m, "first"});
            c.call(team.communicator, m);
        });
        for (const std::string& error : errors) EXPECT_EQ(error, c.expected);
    }
}

TEST(Communicator, AFailureElsewhereEndsTheWait) {
    Team team(3);
    const std::vector<std::string> errors = team.run([&](std::uint32_t m) {
        double value = 1;
        if (m < 2)
            team.communicator.all_reduce({m, "norm"}, std::span(&value, 1));
        else
            team.monitor.fail(FailureKind::kInput, "no more tokens");
    });
    EXPECT_EQ(errors, (std::vector<std::string>{"stopped", "stopped", ""}));
    EXPECT_THROW(team.monitor.throw_failure(), InputError);
}

TEST(Communicator, OnlyMembersCall) {
    Team team(2);
    EXPECT_EQ(team.communicator.member_of(Rank{11}), 1U);
    EXPECT_THROW(team.communicator.member_of(Rank{1}), InternalError);
    EXPECT_THROW(team.communicator.barrier({2, ""}), InternalError);
    EXPECT_THROW(team.communicator.send({1, ""}, {}), InternalError);
}

}  // namespace
}  // namespace sluice
