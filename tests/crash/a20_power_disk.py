"""The simulator of power cuts itself: what stands, what may, and that nothing else does."""

import pytest

from power_disk import CREATED, Disk, Record



def record(op, **fields):
    return Record(**{**dict(t=0, op=op, fd=3, at=0, n=0, path="", other="", data=b""), **fields})


def disk(*records):
    made = Disk("/root")
    for r in records:
        made.play(r)
    return made


def create(path, fd=3):
    return record("O", path=path, fd=fd, at=CREATED)


def folder(fd=9, path="/root"):
    return record("O", path=path, fd=fd, at=4)


def sync(fd, number):
    return [record("S", fd=fd, at=number), record("s", fd=fd, at=number)]


def write(data, at=0, fd=3):
    return record("W", fd=fd, at=at, n=len(data), data=data)


def images(made, n=300):
    return [made.image(seed)[0] for seed in range(n)]


NAMED = [create("/root/f"), folder(), *sync(9, 100)]


def test_what_is_synced_stands_in_every_image():
    made = disk(*NAMED, write(b"x" * 2000), *sync(3, 1))
    assert all(image == {"/f": b"x" * 2000} for image in images(made))


def test_a_file_whose_name_is_not_synced_may_be_lost_with_all_its_bytes():
    made = disk(create("/root/f"), write(b"x"), *sync(3, 1))
    assert {image.get("/f") for image in images(made)} == {None, b"x"}


def test_a_write_that_is_not_synced_is_kept_lost_or_torn_by_sectors():
    old, new = b"o" * 2048, b"n" * 1200
    made = disk(*NAMED, write(old), *sync(3, 1), write(new, at=300), write(b"m", at=0))
    found = {image["/f"] for image in images(made, 3000)}
    assert old in found and b"m" + old[1:300] + new + old[1500:] in found
    seen = set()
    for text in found:
        assert len(text) == 2048 and text[1500:] == old[1500:] and text[1:300] == old[1:300]
        pieces = text[300:512], text[512:1024], text[1024:1500]
        assert all(len(set(p)) == 1 for p in pieces)
        seen.add(tuple(p[:1] for p in pieces))
    assert len(seen) == 8


def test_a_sync_covers_what_was_written_before_it_began_and_nothing_before_it_has_ended():
    begun = [*NAMED, write(b"a"), record("S", at=1), write(b"b", at=1)]
    assert disk(*begun).leave() == {"/f": b""}
    assert disk(*begun, record("s", at=1)).leave() == {"/f": b"a"}


def test_a_rename_is_whole_or_not_at_all():
    made = disk(*NAMED, write(b"x"), *sync(3, 1), record("R", path="/root/f", other="/root/g"))
    assert {tuple(image) for image in images(made)} == {("/f",), ("/g",)}
    made.play(folder())
    for r in sync(9, 2):
        made.play(r)
    assert {tuple(image) for image in images(made)} == {("/g",)}


def test_a_rename_between_directories_stands_with_the_new_names_directory():
    made = disk(record("M", path="/root/a"), record("M", path="/root/b"), folder(), *sync(9, 1), create("/root/a/f"),
                folder(8, "/root/a"), *sync(8, 2), record("R", path="/root/a/f", other="/root/b/f"), *sync(8, 3))
    assert {"/a/f" in image for image in images(made)} == {True, False} and all(("/a/f" in i) != ("/b/f" in i) for i in images(made))
    for r in [folder(7, "/root/b"), *sync(7, 4)]:
        made.play(r)
    assert all("/b/f" in image and "/a/f" not in image for image in images(made))


def test_removals_and_truncates_may_be_undone():
    made = disk(*NAMED, write(b"x" * 600), *sync(3, 1), record("T", n=0))
    assert {b"", b"x" * 600} == {image["/f"] for image in images(made)}
    made = disk(*NAMED, record("U", path="/root/f"))
    assert {"/f" in image for image in images(made)} == {True, False}


def test_a_directory_is_lost_with_what_is_synced_in_it():
    made = disk(record("M", path="/root/d"), create("/root/d/f"), folder(9, "/root/d"), *sync(9, 1))
    assert {tuple(image) for image in images(made)} == {(), ("/d", "/d/f")}


@pytest.mark.parametrize("since, left", [(0, None), (5, b""), (99, b"x")])
def test_a_control_takes_no_sync_at_its_word(since, left):
    made = Disk("/root", honors=lambda number: number <= since)
    for r in [*NAMED, write(b"x"), *sync(3, 1)]:
        made.play(r)
    assert made.leave().get("/f") == left


def test_an_index_in_memory_comes_back_from_no_cut():
    assert all(image == {} for image in images(disk(create("/root/f.db-shm"), folder(), *sync(9, 1))))


def test_an_image_is_a_function_of_its_seed():
    made = disk(*NAMED, *(write(bytes([i]) * 700, at=700 * i) for i in range(20)))
    assert all(made.image(seed) == made.image(seed) for seed in range(20)) and len({i["/f"] for i in images(made)}) > 50
