"""The plots of the built-in stories.

A plot is a list of acts, an act a list of sentences. What the first act says by name (who, which thing, where, how
many, which promise) is what the last act needs; the acts in between are where a reader could forget.
"""

from collections.abc import Callable

from oelm.data.story_words import (
    ANIMALS,
    COLOURS,
    FLOWERS,
    KEEPSAKES,
    NUMBERS,
    OFFICIALS,
    ORDINALS,
    PET_NAMES,
    SEASONS,
    THINGS,
    TIMES,
    TREATS,
    VISITED,
    WEATHERS,
    Cast,
    Dice,
    article,
    counted,
    listed,
)

Acts = list[list[str]]
Plot = Callable[[Dice, Cast], Acts]


def hidden(dice: Dice, cast: Cast) -> Acts:
    """A thing is hidden, the place forgotten, and the friend who was told remembers."""
    hero, friend = cast.hero, cast.friend
    thing, place, word = dice.thing(), dice.hiding_place(), dice.password()
    giver = dice.pick(["grandmother", "grandfather", "aunt", "uncle", "godmother", "neighbour"])
    reason = dice.pick(
        [
            f"{hero.she} was afraid that thieves might come",
            f"{hero.hers} little brother broke everything",
            f"the roof leaked and {hero.she} wanted to keep it dry",
            "soldiers were marching through the valley",
        ]
    )
    told = _told_a_friend(dice, cast, word)
    forgot = _forgot(dice, cast)
    found = dice.pick(
        [
            f"There, {place}, lay the {thing}, just as {hero.name} had left it.",
            f"They looked {place}, and the {thing} was still there.",
            f"{hero.name} reached out {place} and felt the {thing}.",
        ]
    )
    return [
        [
            f"One day {hero.hers} {giver} gave {hero.her} {article(thing)}.",
            f"Because {reason}, {hero.name} hid the {thing} {place}.",
            told,
        ],
        [forgot],
        [
            f'When {hero.hers} {giver} asked, "Where is the {thing}?" {hero.name} could not remember.',
            f'{hero.name} ran to {friend.name} and said, "{word.capitalize()}!"',
            f"{friend.name} laughed and led {hero.her} straight to the spot.",
            found,
        ],
    ]


def _told_a_friend(dice: Dice, cast: Cast, word: str) -> str:
    hero, friend = cast.hero, cast.friend
    return dice.pick(
        [
            f'Only {friend.name} was told. "If you ever forget, say {word}," {friend.name} whispered.',
            f'{hero.name} told nobody but {friend.name}, and they chose a secret name for it: "{word}".',
            f'"Our secret shall be called {word}," said {hero.name} to {friend.name}, and to no one else.',
        ]
    )


def _forgot(dice: Dice, cast: Cast) -> str:
    hero = cast.hero
    return dice.pick(
        [
            f"Then a long {dice.pick(SEASONS)} came, and {hero.name} thought of other things.",
            f"Many weeks went by, and {hero.name} grew a little taller.",
            f"That {dice.pick(SEASONS)} there was so much work that {hero.name} forgot all about it.",
            f"Then {hero.name} fell ill for {NUMBERS[dice.between(2, 9)]} days and forgot nearly everything.",
        ]
    )


def retraced(dice: Dice, cast: Cast) -> Acts:
    """Three places are visited, a thing is lost on the way, and the way is walked again backwards."""
    hero, friend = cast.hero, cast.friend
    thing, lost = dice.thing(), dice.below(3)
    places = [dice.fresh(VISITED) for _ in range(3)]
    errands = [
        f"bought {dice.fresh(TREATS)}",
        f"talked to the {dice.fresh(OFFICIALS)}",
        "rested for a while",
        f"fed {article(dice.fresh(ANIMALS))}",
        "listened to the music",
    ]
    errands = dice.shuffled(errands)[:3]
    search = [
        f"At the {place} there was nothing." if step > lost else f"At the {place} {friend.name} saw something."
        for step, place in reversed(list(enumerate(places)))
        if step >= lost
    ]
    lesson = dice.pick(
        [
            f'"So I lost it at the {places[lost]}," said {hero.name}, "and not at the {places[lost - 1]}."',
            f"From then on {hero.name} always held the {thing} tight at the {places[lost]}.",
            f'"I would have begun at the {places[0]}," said {hero.name}, "but you were right, {friend.name}."',
        ]
    )
    return [
        [
            f"{hero.name} owned {article(thing)} and carried it everywhere.",
            f"In the morning {hero.she} went to the {places[0]} and {errands[0]}.",
            f"After that {hero.she} went to the {places[1]} and {errands[1]}.",
            f"Last of all {hero.she} went to the {places[2]} and {errands[2]}.",
        ],
        [
            f"In the evening the {thing} was gone.",
            f'"Let us go back the way you came," said {friend.name}, "the last place first."',
        ],
        [*search, f"It was the {thing}! It lay where {hero.name} had {errands[lost]}.", lesson],
    ]


def borrowed(dice: Dice, cast: Cast) -> Acts:
    """A thing is borrowed against a promise, breaks, is mended, and goes home with the promised thanks."""
    hero, friend = cast.hero, cast.friend
    thing, owner, mender = dice.thing(), dice.person(), dice.person()
    time, number, treats = dice.pick(TIMES), dice.between(2, 9), dice.fresh(TREATS)
    accident = dice.pick(
        [
            f"On the way home {hero.name} slipped, and the {thing} broke.",
            f"But {dice.pick(['a goat', 'the wind', 'a big dog', 'a cart'])} knocked the {thing} down, and it broke.",
            f"{hero.name} lent it on for an hour, and the {thing} came back in two parts.",
        ]
    )
    truth = dice.pick(
        [
            f"{owner.name} could not see where it had been broken, but {hero.name} told the truth: "
            f"{mender.name} had mended it.",
            f'"It looks better than before," said {owner.name}. "That was {mender.name}," said {hero.name}.',
            f'"You kept your word," said {owner.name}, and they sent two of the {treats} to {mender.name}.',
        ]
    )
    price = dice.pick(["a song", "a story", "a smile", "a cup of tea"])
    return [
        [
            f"{hero.name} needed {article(thing)}, and only {owner.name}, {owner.role}, had one.",
            f'"You may take it," said {owner.name}, "but bring it back before {time}."',
            f'"I promise," said {hero.name}, "and I will bring you {counted(number, treats)} too."',
        ],
        [
            accident,
            f"{friend.name} said that {mender.name}, {mender.role}, could mend anything.",
            f"{mender.name} worked all night and asked for nothing but {price}.",
        ],
        [
            f"Just before {time}, {hero.name} knocked at {owner.name}'s door.",
            f'"Here is your {thing}, and here are the {NUMBERS[number]} {treats}," said {hero.name}.',
            truth,
        ],
    ]


def traded(dice: Dice, cast: Cast) -> Acts:
    """One thing is traded for another and another, and at the end the chain is told again."""
    hero, friend = cast.hero, cast.friend
    things, people = [dice.thing() for _ in range(4)], [dice.person() for _ in range(3)]
    trades = [
        dice.pick(
            [
                f"{person.name}, {person.role}, gave {hero.her} {article(new)} for the {old}.",
                f"{hero.name} met {person.name}, {person.role}, and got {article(new)} in return for the {old}.",
                f"{person.name}, {person.role}, wanted the {old} and offered {article(new)} for it.",
                f"For the {old}, {person.name}, {person.role}, was glad to give away {article(new)}.",
            ]
        )
        for person, old, new in zip(people, things, things[1:], strict=False)
    ]
    asked = dice.below(3)
    return [
        [f"{hero.name} had nothing but {article(things[0])}.", *trades],
        [f'At home {friend.name} looked at the {things[3]}. "How did you come by it?"'],
        [
            f'"First I had the {things[0]}," said {hero.name}. '
            f'"{people[0].name} took it, and {people[1].name} took the {things[1]}, '
            f'and {people[2].name} took the {things[2]}."',
            f'"Who has the {things[asked]} now?" asked {friend.name}. '
            f'"{people[asked].name} has it," said {hero.name}, "and I have the {things[3]}."',
        ],
    ]


def counted_out(dice: Dice, cast: Cast) -> Acts:
    """So many are picked, so many given away, and what is left adds up."""
    hero, friend = cast.hero, cast.friend
    goods, other = dice.fresh(dice.pick([TREATS, KEEPSAKES])), dice.person()
    given, gift, left = dice.between(2, 6), dice.between(2, 6), dice.between(1, 8)
    total = given + gift + left
    vessel = f"{dice.fresh(COLOURS)} {dice.pick(['basket', 'bag', 'bowl', 'box', 'sack'])}"
    end = dice.pick(
        [
            f"{friend.name} gave {hero.her} the {NUMBERS[given]} back, "
            f"and so the {vessel} held {counted(left + given, goods)} again.",
            f"In the evening {hero.name} and {friend.name} put theirs together and had {counted(left + given, goods)}.",
            f"{other.name} and {friend.name} counted what they had been given: "
            f"{NUMBERS[gift]} and {NUMBERS[given]}, so {counted(gift + given, goods)}.",
        ]
    )
    return [
        [
            f"{hero.name} had {counted(total, goods)} in {article(vessel)}.",
            f"{hero.she.capitalize()} gave {counted(given, goods)} to {friend.name}, who had none.",
            f"Then {hero.she} met {other.name}, {other.role}, and gave {other.her} {counted(gift, goods)}.",
        ],
        [
            f'"How many are left in the {vessel}?" asked {friend.name}.',
            f"{hero.name} counted: {counted(left, goods)} of the {NUMBERS[total]}.",
        ],
        [f"{other.name} had been sad, and the {NUMBERS[gift]} {goods} made {other.her} smile.", end],
    ]


def message(dice: Dice, cast: Cast) -> Acts:
    """Exact words are carried far and must be said again."""
    hero, friend = cast.hero, cast.friend
    sender, receiver, word = dice.person(), dice.person(), dice.password()
    place, thing = dice.hiding_place(), dice.thing()
    words = f"the {thing} is {place}, and the word is {word}"
    arrival = dice.pick(
        [
            f"At last {hero.name} stood before {receiver.name}, out of breath.",
            f"{receiver.name} opened the door and waited.",
            f'"What does {sender.name} want of me?" asked {receiver.name}.',
        ]
    )
    return [
        [
            f'{sender.name}, {sender.role}, called {hero.name} and said, "Go to {receiver.name}, {receiver.role}."',
            f'"Say this: {words}. Do not change a single word."',
            f"{hero.name} said it over and over while {hero.she} walked.",
        ],
        [
            f"On the road {hero.she} met {friend.name}, who asked where {hero.she} was going.",
            f'"To {receiver.name}," said {hero.name}, "with a message from {sender.name}."',
        ],
        [
            arrival,
            f'"{words[0].upper()}{words[1:]}," said {hero.name}.',
            f'{receiver.name} looked {place}. "{word.capitalize()}!" {receiver.she} called, and took the {thing}.',
        ],
    ]


def three_hiders(dice: Dice, cast: Cast) -> Acts:
    """Three children hide three things in three places; each must be found for its owner."""
    third = dice.person()
    game = [(child.name, dice.thing(), dice.hiding_place()) for child in (cast.hero, cast.friend, third)]
    hides = [
        dice.pick(
            [
                f"{child} hid {article(thing)} {place}.",
                f"{child} chose {article(thing)} and put it {place}.",
                f"{place[0].upper()}{place[1:]}, {child} hid {article(thing)}.",
            ]
        )
        for child, thing, place in game
    ]
    finds = [
        dice.pick(
            [
                f"{place[0].upper()}{place[1:]} was the {thing}, and it went back to {child}.",
                f'"Whose {thing} is this?" It lay {place}, so it was {child}\'s.',
                f"The {thing} was {place}, so {child} got it back.",
                f"{child} ran to get the {thing}, which was still {place}.",
            ]
        )
        for child, thing, place in dice.shuffled(game)
    ]
    return [
        [f"{listed([child for child, _, _ in game])} played a game.", *hides],
        [f"Then {dice.pick(WEATHERS)} came and they all ran inside until the next day."],
        ["In the morning they looked for everything.", *finds],
    ]


def mixed_up(dice: Dice, cast: Cast) -> Acts:
    """Two things of one kind, two owners, and somebody who only knows by hearsay which is whose."""
    hero, friend, witness = cast.hero, cast.friend, dice.person()
    noun, mine, yours = dice.fresh(THINGS), dice.fresh(COLOURS), dice.fresh(COLOURS)
    marks = [dice.fresh(KEEPSAKES) for _ in range(2)]
    place = dice.hiding_place()
    return [
        [
            f"{hero.name} had {article(mine)} {noun}, and {friend.name} had {article(yours)} {noun}.",
            f"{hero.name} kept {marks[0]} with the {mine} one; {friend.name} kept {marks[1]} with the {yours} one.",
            f"They told {witness.name}, {witness.role}, which was which.",
        ],
        [f"One night both were left {place}, and in the dark {friend.name} took the {mine} {noun} by mistake."],
        [
            f'"These are {marks[0]}, not {marks[1]}!" cried {friend.name}.',
            f'{witness.name} said, "{hero.name} told me that the {mine} {noun} is {hero.hers} own. '
            f'Yours is {yours}, {friend.name}."',
            f"So {hero.name} got back the {mine} {noun} with the {marks[0]}, "
            f"and {friend.name} the {yours} {noun} with the {marks[1]}.",
        ],
    ]


def grateful(dice: Dice, cast: Cast) -> Acts:
    """An animal is helped with a thing, and comes back with that thing when help is needed."""
    hero, friend = cast.hero, cast.friend
    animal, name, thing, place = dice.fresh(ANIMALS), dice.fresh(PET_NAMES), dice.thing(), dice.hiding_place()
    danger = dice.pick(["the fog was thick", "snow fell all night", "the river rose", "the path was washed away"])
    sorry = dice.pick(
        [
            f'"I was wrong about the {thing}," said {friend.name}, "and I was wrong about {name}."',
            f'"So you did see your {thing} again," said {friend.name}, and gave {name} some bread.',
        ]
    )
    return [
        [
            f"One cold morning {hero.name} found a hurt {animal} {place}.",
            f"{hero.she.capitalize()} left {hero.hers} {thing} there to keep the {animal} safe, "
            f"and called the {animal} {name}.",
            f'"Giving away your {thing}!" said {friend.name}. "You will never see it again."',
        ],
        [f"But then {danger}, and {hero.name} lost {hero.hers} way far from {cast.town}."],
        [
            f"Something moved. It was {name} the {animal}, and {name} was carrying the {thing}.",
            f"{name} led {hero.her} past the spot {place} and all the way home.",
            sorry,
        ],
    ]


def planted(dice: Dice, cast: Cast) -> Acts:
    """Rows are sown for different people, and at the harvest each gets their own."""
    hero = cast.hero
    people = [cast.friend, dice.person(), dice.person()]
    rows = [
        (ORDINALS[place], person.name, dice.fresh(FLOWERS), dice.between(2, 9)) for place, person in enumerate(people)
    ]
    sown = [f"In the {row} row {hero.she} sowed {crop} for {person}." for row, person, crop, _ in rows]
    cut = [
        dice.pick(
            [
                f"{person} got {counted(number, crop)} from the {row} row.",
                f"The {row} row gave {counted(number, crop)}, and {person} carried them home.",
            ]
        )
        for row, person, crop, number in dice.shuffled(rows)
    ]
    row, person, crop, _ = dice.pick(rows)
    stranger = dice.pick(["a stranger", "an old man", f"the {dice.pick(OFFICIALS)}"])
    return [
        [f"{hero.name} dug three rows in the garden.", *sown],
        [f'"What grows in the {row} row?" asked {stranger}. "{crop.capitalize()}, for {person}," said {hero.name}.'],
        ["At last it was time to cut them.", *cut],
    ]


PLOTS: tuple[Plot, ...] = (
    hidden,
    retraced,
    borrowed,
    traded,
    counted_out,
    message,
    three_hiders,
    mixed_up,
    grateful,
    planted,
)
